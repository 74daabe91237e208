"""The compiled case programs, one fixture each."""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from programs import CUDA_INCLUDE, compile_program


@pytest.fixture(scope="session", autouse=True)
def _tools() -> None:
    if shutil.which("g++") is None:
        pytest.skip("g++ is missing")
    if not CUDA_INCLUDE.is_dir():
        pytest.skip("the CUDA headers are missing: pip install 'sparkctl[toolchain]'")


@pytest.fixture(scope="session")
def collectives(_tools: None) -> Path:
    return compile_program("collectives")


@pytest.fixture(scope="session")
def matrix(_tools: None) -> Path:
    return compile_program("matrix")


@pytest.fixture(scope="session")
def async_copies(_tools: None) -> Path:
    return compile_program("async_copies")


@pytest.fixture(scope="session")
def faults(_tools: None) -> Path:
    return compile_program("faults")


@pytest.fixture(scope="session")
def grid(_tools: None) -> Path:
    return compile_program("grid")


@pytest.fixture(scope="session")
def conversions(_tools: None) -> Path:
    return compile_program("conversions")
