"""The one door to other programs: runs them, times them out and reports their failures whole."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkctl.errors import MissingTool, WorkFailed


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


def describe_failure(result: ToolResult) -> str:
    """The command, its exit code or signal, and what it printed."""
    code = result.returncode
    how = f"exit code {code}" if code >= 0 else f"killed by signal {-code}"
    text = f"{shlex.join(result.argv)}\n  {how}"
    return f"{text}\n{result.output}" if result.output else text
