"""The helpers beside the tests can be imported by name; one small library for the tests of wrong calls."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from calls import build_library

from sparkctl.runtime import Library


@pytest.fixture(scope="session")
def small_library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return build_library(tmp_path_factory.mktemp("small"))
