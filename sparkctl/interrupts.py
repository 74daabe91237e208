"""Ctrl-C, remembered: whatever swallows the KeyboardInterrupt, the work stops and ends as interrupted.

Python raises KeyboardInterrupt wherever it happens to be. A finaliser drops it, a foreign library hands it back as an
error of its own. So the handler also keeps a record, and who runs many steps asks for it between them.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

AGAIN_S = 0.01  # after a finaliser dropped the interrupt: long enough to be out of it

_seen = threading.Event()
_pending: list[threading.Timer] = []


@contextmanager
def watch_interrupts(*, last: bool = False) -> Iterator[None]:
    """Record SIGINT inside; a block that saw one ends in KeyboardInterrupt, whatever else it ended in.

    `last`: the program ends behind the block, so that SIGINT is left to the system; the interpreter's own end would
    print a traceback. Nothing changes outside the main thread, or where SIGINT is ignored or handled by somebody else.
    """
    _seen.clear()
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    report_dropped = sys.unraisablehook
    signal.signal(signal.SIGINT, _record)
    sys.unraisablehook = lambda dropped: _raise_again() if _is_interrupt(dropped) else report_dropped(dropped)
    try:
        yield
        check_interrupt()
    except Exception:
        check_interrupt()
        raise
    finally:
        _seen.clear()
        while _pending:
            _pending.pop().cancel()
        sys.unraisablehook = report_dropped
        signal.signal(signal.SIGINT, signal.SIG_DFL if last else signal.default_int_handler)


def check_interrupt() -> None:
    """KeyboardInterrupt if there was one and something swallowed it."""
    if _seen.is_set():
        raise KeyboardInterrupt


def _record(number: int, frame: FrameType | None) -> None:
    _seen.set()
    raise KeyboardInterrupt


def _is_interrupt(dropped: Any) -> bool:
    return dropped.exc_type is KeyboardInterrupt


def _raise_again() -> None:
    """Once more, from outside of the finaliser that dropped it; a real signal, since that ends a wait too."""
    again = threading.Timer(AGAIN_S, signal.pthread_kill, (threading.get_ident(), signal.SIGINT))
    again.daemon = True
    _pending.append(again)
    again.start()
