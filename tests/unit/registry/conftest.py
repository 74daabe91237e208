"""A small valid registry that tests break one line at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sparkctl.registry import Registry
from sparkctl.registry.load import parse_registry

SAMPLE = Path(__file__).parents[2] / "data" / "registry" / "sample.yaml"


@pytest.fixture
def sample_text() -> str:
    return SAMPLE.read_text(encoding="utf-8")


@pytest.fixture
def registry_of(tmp_path: Path) -> Callable[[str], Registry]:
    """Reads a text as the flags.yaml of a project that has csrc/one.cu and csrc/two.cu."""
    (tmp_path / "csrc").mkdir()
    for name in ("one", "two"):
        (tmp_path / "csrc" / f"{name}.cu").touch()
    return lambda text: parse_registry(text, tmp_path / "flags.yaml")


@pytest.fixture
def registry(registry_of: Callable[[str], Registry], sample_text: str) -> Registry:
    return registry_of(sample_text)
