"""What every test starts from: no terminal width, no settings and no ignored interrupts of whoever runs the tests."""

from __future__ import annotations

import os
import signal

import pytest

INHERITED = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE")

# A shell's background jobs ignore it, and so would every program that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*INHERITED, *(name for name in os.environ if name.startswith("SPARKCTL_FLAG_"))):
        monkeypatch.delenv(name, raising=False)
