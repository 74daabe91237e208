"""The one door to other programs: runs them, times them out and reports their failures whole."""

from __future__ import annotations

import ctypes
import os
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkctl.errors import MissingTool, WorkFailed

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a program said and how it ended."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        """Both streams, stdout first, without trailing blank lines."""
        return "\n".join(text.rstrip() for text in (self.stdout, self.stderr) if text.strip())


def run_tool(
    argv: Sequence[str | os.PathLike[str]],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    check: bool = True,
    input: str | None = None,
) -> ToolResult:
    """Run `argv` to its end, without a shell.

    Raises MissingTool if the program is not there, WorkFailed (command, exit code, its own output) if it fails under
    `check` or runs longer than `timeout` seconds.
    """
    words = tuple(os.fspath(word) for word in argv)
    try:
        done = subprocess.run(
            words,
            cwd=cwd,
            env=None if env is None else dict(env),
            timeout=timeout,
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
        )
    except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
        raise MissingTool(f"cannot run {words[0]}: {error.strerror}") from error
    except OSError as error:
        raise WorkFailed(f"cannot run {words[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise WorkFailed(f"{shlex.join(words)}\n  ran longer than {timeout:g} s") from error
    result = ToolResult(words, done.returncode, done.stdout, done.stderr)
    if check and result.returncode != 0:
        raise WorkFailed(describe_failure(result))
    return result


def start_tool(
    argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], keep_fds: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start a program that ends with us, whatever ends us: the kernel sends it SIGTERM when this thread is gone.

    Both its streams come from `stdout`. It leads a process group of its own, so that a Ctrl-C reaches only us.
    `keep_fds` stay open in it and in its children: a lock is then held until the last of them has ended.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    parent = os.getpid()

    def die_with_parent() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    try:
        return subprocess.Popen(
            argv,
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
            pass_fds=keep_fds,
            preexec_fn=die_with_parent,
        )
    except OSError as error:
        raise MissingTool(f"cannot run {argv[0]}: {error.strerror}") from error


def describe_failure(result: ToolResult) -> str:
    """The command, its exit code or signal, and what it printed."""
    code = result.returncode
    how = f"exit code {code}" if code >= 0 else f"killed by signal {-code}"
    text = f"{shlex.join(result.argv)}\n  {how}"
    return f"{text}\n{result.output}" if result.output else text
