"""The helpers beside the tests can be imported by name."""

import sys
from pathlib import Path

import pytest

from sparkctl.ops import plan

sys.path.insert(0, str(Path(__file__).resolve().parent))


@pytest.fixture(autouse=True)
def own_history(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test writes to the history of whoever runs it."""
    monkeypatch.setenv("SPARKCTL_DATA_DIR", str(tmp_path / "data"))


@pytest.fixture
def one_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planner takes tiles of 64 keys whatever the batch, so that a screen shows one variant's rows together."""
    monkeypatch.setattr(plan, "wanted_tile", lambda shape: plan.TILE)
