"""What is made of ninja's words, and what happens to ninja when we end."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from sparkctl.build import ninja_run
from sparkctl.build.ninja_run import (
    STATUS_MARK,
    NinjaRun,
    _Parser,
    parse_dependencies,
    read_times,
    run_ninja,
)
from sparkctl.build.sampler import MemorySampler
from sparkctl.toolchain import find_program

NINJA = find_program("ninja", {"PATH": "/usr/bin:/bin"})


def parse(*lines: str) -> tuple[NinjaRun, list[tuple[str, bool]]]:
    run, told = NinjaRun(), []
    parser = _Parser(run, lambda name, ok: told.append((name, ok)))
    for line in lines:
        parser.take(line)
    parser.end()
    return run, told


def test_good_and_failed_edges_are_told_apart() -> None:
    run, told = parse(
        f"{STATUS_MARK}a",
        f"{STATUS_MARK}b",
        "FAILED: [code=2] obj/b.o obj/b.ptxas ",
        "the command",
        "b.cu(3): error: one",
        "b.cu(4): error: two",
        f"{STATUS_MARK}c",
        "c.cpp: warning: old",
        "ninja: build stopped: cannot make progress due to previous errors.",
    )
    assert told == [("a", True), ("b", False), ("c", True)]
    assert run.finished == {"a": True, "b": False, "c": True}
    assert run.failures == {"b": (2, "b.cu(3): error: one\nb.cu(4): error: two")}
    assert run.messages == ["c.cpp: warning: old", "build stopped: cannot make progress due to previous errors."]


def test_a_pause_tells_progress_and_a_later_failure_corrects_it() -> None:
    run, told = NinjaRun(), []
    parser = _Parser(run, lambda name, ok: told.append((name, ok)))
    parser.take(f"{STATUS_MARK}a")
    parser.pause()
    parser.pause()
    assert told == [("a", True)]
    parser.take("FAILED: [code=1] a.o")
    parser.end()
    assert told == [("a", True), ("a", False)]
    assert run.finished == {"a": False}


def test_dependencies_of_valid_outputs_are_read() -> None:
    text = """\
obj/a b.o: #deps 2, deps mtime 1 (VALID)
    csrc/a b.cu
    csrc/x.h

obj/old.o: #deps 1, deps mtime 1 (STALE)
    csrc/old.cu
"""
    assert parse_dependencies(text.splitlines()) == {"obj/a b.o": ("csrc/a b.cu", "csrc/x.h")}


def test_times_come_from_the_last_run_of_an_output(tmp_path: Path) -> None:
    log = tmp_path / ".ninja_log"
    log.write_text("# ninja log v7\n0\t1500\t9\ta.o\tabc\n10\t2010\t9\tb.o\tabc\n5\t105\t9\ta.o\tdef\n")
    assert read_times(log) == {"a.o": 0.1, "b.o": 2.0}
    assert read_times(tmp_path / "none") == {}


def test_memory_of_running_edges_is_sampled(tmp_path: Path) -> None:
    hold = f"{sys.executable} -c 'x = b\"1\" * (100 << 20); import time; time.sleep(0.5)'"
    (tmp_path / "build.ninja").write_text(
        f"rule r\n  command = SPARKCTL_EDGE=big {hold} && touch $out\n  description = big\nbuild out: r\n"
    )
    run = NinjaRun()
    run_ninja(NINJA, "build.ninja", cwd=tmp_path, environ={"PATH": "/usr/bin:/bin:/usr/local/bin"}, jobs=1, run=run)
    assert run.finished == {"big": True}, run
    assert 100 << 20 < run.peaks["big"] < 300 << 20


def test_a_process_that_is_gone_is_no_error() -> None:
    sampler = MemorySampler(2**22 + 1)
    sampler.sample()
    assert sampler.peaks == {}


def interrupted(ninja: Path, folder: Path) -> float:
    """Run until the first edge has ended, then interrupt; the seconds that the end took."""
    began = 0.0

    def interrupt(*_: object) -> None:
        nonlocal began
        began = time.monotonic()
        raise KeyboardInterrupt

    environ = {"PATH": "/usr/bin:/bin:/usr/local/bin"}
    with pytest.raises(KeyboardInterrupt):
        run_ninja(ninja, "build.ninja", cwd=folder, environ=environ, jobs=2, run=NinjaRun(), on_edge=interrupt)
    return time.monotonic() - began


def test_a_compiler_that_ignores_the_interrupt_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ninja_run, "GRACE_S", 0.5)
    stubborn = f"trap '' INT; echo $$$$ > {tmp_path}/pid; sleep 60; sleep 60"
    (tmp_path / "build.ninja").write_text(
        "rule r\n  command = $sh\n  description = $out\n"
        f"build slow: r\n  sh = {stubborn}\nbuild quick: r\n  sh = sleep 0.3\n"
    )
    assert interrupted(NINJA, tmp_path) < 10
    pid = int((tmp_path / "pid").read_text())
    status = Path(f"/proc/{pid}/stat")
    assert not status.exists() or " Z " in status.read_text()


def test_whoever_still_holds_the_pipe_does_not_hold_up_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ninja_run, "GRACE_S", 0.5)
    ninja = tmp_path / "ninja"
    ninja.write_text(f"#!/bin/sh\nsetsid sleep 30 &\necho $! > {tmp_path}/pid\necho '{STATUS_MARK}a'\nexec sleep 30\n")
    ninja.chmod(0o755)
    try:
        assert interrupted(ninja, tmp_path) < 10
    finally:
        os.kill(int((tmp_path / "pid").read_text()), 9)
