"""Ctrl-C that something swallows is an interrupt all the same."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from sparkctl.interrupts import check_interrupt, watch_interrupts


def swallow() -> None:
    """As a foreign library does that knows no KeyboardInterrupt."""
    with suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def fail() -> None:
    swallow()
    raise RuntimeError("error: 2")


@pytest.mark.parametrize("work", [swallow, fail], ids=["done", "failed"])
def test_a_swallowed_interrupt_ends_the_block_as_interrupted(work: Callable[[], None]) -> None:
    with pytest.raises(KeyboardInterrupt), watch_interrupts():
        work()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_check_between_two_steps_finds_it() -> None:
    steps = []
    with pytest.raises(KeyboardInterrupt), watch_interrupts():
        swallow()
        check_interrupt()
        steps.append("the second step")
    assert steps == []


def test_without_an_interrupt_nothing_is_raised_or_changed() -> None:
    with pytest.raises(KeyboardInterrupt), watch_interrupts():
        swallow()
    check_interrupt()
    with watch_interrupts():
        check_interrupt()
    with pytest.raises(RuntimeError, match="broken"), watch_interrupts():
        raise RuntimeError("broken")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_somebody_else_stays() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with watch_interrupts():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_thread_than_the_main_one_is_left_alone() -> None:
    done = []

    def work() -> None:
        with watch_interrupts():
            done.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [signal.default_int_handler]


DROPPED = """
import signal, sys, time
from sparkctl.interrupts import watch_interrupts

class Finalised:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
        time.sleep(0)

try:
    with watch_interrupts(last=True):
        Finalised()
        time.sleep(30)
        print("slept")
except KeyboardInterrupt:
    print("interrupted", signal.getsignal(signal.SIGINT) is signal.SIG_DFL)
"""


def test_an_interrupt_that_a_finaliser_drops_comes_again_at_once_and_prints_nothing() -> None:
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-c", DROPPED], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("interrupted True\n", "")
    assert time.monotonic() - start < 20
