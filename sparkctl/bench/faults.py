"""What an error of a device or of a library beside us means for a run: a row, or the end of it. Pure."""

from __future__ import annotations

from sparkctl.errors import WorkFailed

# Words of the errors after which no call succeeds any more in this process. Source: the CUDA runtime's error strings,
# of those that its documentation calls sticky ("the process must be terminated and relaunched").
_LOST = (
    "device-side assert",
    "illegal memory access",
    "illegal instruction",
    "misaligned address",
    "hardware stack error",
    "invalid program counter",
    "global/shared address space",
    "unspecified launch failure",
    "launch timed out",
    "uncorrectable",
    "hardware error",
    "no cuda-capable device",
    "device(s) is/are busy or unavailable",
    "driver shutting down",
    "gpu is lost",
    "unknown error",
)
_MEMORY = ("out of memory", "cuda_error_out_of_memory")


class DeviceLost(WorkFailed):
    """No call to the device succeeds any more: what was measured stays, the run is over."""


def lost_reason(error: BaseException) -> str | None:
    """The line of an error that says that the device is lost; None where it is not."""
    for line in str(error).splitlines():
        if any(word in line.lower() for word in _LOST):
            return line.strip().rstrip(".")
    return None


def describe_crash(error: BaseException) -> str:
    """One line for a row: the kind of an error and its first line."""
    text = first_line(str(error))
    if any(word in text.lower() for word in _MEMORY):
        return f"out of memory: {text}"
    kind = type(error).__name__
    return f"{kind}: {text}" if text else kind


def first_line(text: str) -> str:
    """The first line that says something, without where torch raised it."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    return line.partition(" (Triggered internally")[0].strip()
