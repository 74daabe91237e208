"""What every test starts from: no terminal width and no settings inherited from whoever runs the tests."""

from __future__ import annotations

import os

import pytest

INHERITED = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE")


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*INHERITED, *(name for name in os.environ if name.startswith("SPARKCTL_FLAG_"))):
        monkeypatch.delenv(name, raising=False)
