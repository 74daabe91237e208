"""The lock of a build folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from sparkctl.build.locks import hold_lock, is_locked, read_owner

HOLDER = """
import sys, time
from pathlib import Path
from sparkctl.build.locks import hold_lock
with hold_lock(Path(sys.argv[1]), say=print):
    print("held", flush=True)
    time.sleep(300)
"""


def start_holder(folder: Path) -> subprocess.Popen[str]:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(folder)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_the_holder_writes_its_name_and_takes_it_away(tmp_path: Path) -> None:
    with hold_lock(tmp_path, say=print):
        owner = read_owner(tmp_path)
        assert owner is not None
        assert owner.pid == os.getpid()
        assert abs(owner.started - time.time()) < 10
    assert read_owner(tmp_path) is None


def test_a_waiter_is_told_once_whom_it_waits_for(tmp_path: Path) -> None:
    holder = start_holder(tmp_path)
    said: list[str] = []
    ender = threading.Timer(0.4, holder.terminate)
    ender.start()
    with hold_lock(tmp_path, say=said.append):
        pass
    holder.wait()
    assert len(said) == 1
    assert said[0].startswith(f"waiting for process {holder.pid} on ")
    assert str(tmp_path) in said[0]


def test_a_killed_holder_blocks_no_one(tmp_path: Path) -> None:
    holder = start_holder(tmp_path)
    assert is_locked(tmp_path)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert not is_locked(tmp_path)
    said: list[str] = []
    with hold_lock(tmp_path, say=said.append):
        assert read_owner(tmp_path).pid == os.getpid()
    assert said == []


def test_a_child_that_was_given_the_lock_keeps_it_after_its_parent(tmp_path: Path) -> None:
    """So that compilers of a killed build are waited for and never write beside the next one's."""
    script = HOLDER.replace(
        'print("held", flush=True)',
        'import subprocess; subprocess.Popen(["sleep", "1"], pass_fds=(fd,)); print("held", flush=True)',
    ).replace("say=print):", "say=print) as fd:")
    holder = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    holder.stdout.readline()
    holder.kill()
    holder.wait()
    assert is_locked(tmp_path)
    said: list[str] = []
    with hold_lock(tmp_path, say=said.append):
        pass
    assert len(said) == 1
    assert "it is gone, its compilers are still ending" in said[0]


def test_an_unlocked_folder_is_not_locked(tmp_path: Path) -> None:
    assert not is_locked(tmp_path)
