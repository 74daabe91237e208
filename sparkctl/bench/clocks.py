"""What NVML says while samples are taken: the SM clock, and why it is held down if it is."""

from __future__ import annotations

import contextlib
from typing import Any, Protocol

# Bits of nvmlDeviceGetCurrentClocksEventReasons that mean "slower than asked". Idle, application clocks, sync boost and
# display settings are choices, not throttling. Source: nvml.h, nvmlClocksEventReason*.
_THROTTLE_BITS = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "software thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
}


class Clocks(Protocol):
    """What is asked while a sample runs."""

    def read(self) -> tuple[int | None, tuple[str, ...]]:
        """(SM clock in MHz, reasons why it is held down)."""


class ClockReader:
    """Reads one device. Where NVML does not answer, readings are (None, ()) and `missing` says why."""

    def __init__(self, uuid: str) -> None:
        self._nvml: Any = None
        self._handle: Any = None
        self.driver: str | None = None
        self.missing: str | None = None
        try:
            import pynvml

            pynvml.nvmlInit()
            self._nvml = pynvml
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith("GPU-") else f"GPU-{uuid}")
            version = pynvml.nvmlSystemGetDriverVersion()
            self.driver = version.decode() if isinstance(version, bytes) else str(version)
        except Exception as error:  # NVML raises its own kinds, one for each fault
            self.missing = f"clocks not read: {error}"

    def read(self) -> tuple[int | None, tuple[str, ...]]:
        """(SM clock in MHz, reasons why it is held down)."""
        if self._handle is None:
            return None, ()
        clock: int | None = None
        reasons: tuple[str, ...] = ()
        with contextlib.suppress(Exception):
            clock = int(self._nvml.nvmlDeviceGetClockInfo(self._handle, self._nvml.NVML_CLOCK_SM))
        with contextlib.suppress(Exception):
            reasons = throttle_reasons(int(self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle)))
        return clock, reasons


def throttle_reasons(bits: int) -> tuple[str, ...]:
    """The names of the bits that mean throttling."""
    return tuple(name for bit, name in _THROTTLE_BITS.items() if bits & bit)
