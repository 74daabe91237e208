"""The compiled case programs, one fixture each."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from programs import compile_program


@pytest.fixture(scope="session")
def collectives() -> Path:
    return compile_program("collectives")


@pytest.fixture(scope="session")
def matrix() -> Path:
    return compile_program("matrix")


@pytest.fixture(scope="session")
def async_copies() -> Path:
    return compile_program("async_copies")


@pytest.fixture(scope="session")
def faults() -> Path:
    return compile_program("faults")


@pytest.fixture(scope="session")
def grid() -> Path:
    return compile_program("grid")


@pytest.fixture(scope="session")
def conversions() -> Path:
    return compile_program("conversions")


@pytest.fixture(scope="session")
def clusters() -> Path:
    return compile_program("clusters")
