"""The few kinds of error that reach a user; cli/app.py prints them and maps them to exit codes."""

from __future__ import annotations


class SparkctlError(Exception):
    """Work that could not be done: `message` says what and where, `hint` what to do next.

    The class decides the exit code: 1 failed work, 2 usage, 3 a missing tool or device.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class WorkFailed(SparkctlError):
    """A build, test, gate or check ran and failed."""

    exit_code = 1


class UsageError(SparkctlError):
    """The call or the registry is wrong: an unknown name, a bad value, an empty selection."""

    exit_code = 2


class MissingTool(SparkctlError):
    """A compiler, a device or another tool that the command needs is not there."""

    exit_code = 3
