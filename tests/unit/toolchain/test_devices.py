"""Devices as NVML tells of them."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from sparkctl.arch import Arch
from sparkctl.toolchain import Device, find_devices, find_native_archs


def fake_nvml(**changes: object) -> SimpleNamespace:
    capabilities = [(9, 0), (9, 0), (12, 0)]
    parts = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: b"580.10",
        "nvmlDeviceGetCount": lambda: len(capabilities),
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetCudaComputeCapability": lambda handle: capabilities[handle],
        "nvmlDeviceGetAttributes": lambda handle: SimpleNamespace(multiprocessorCount=132),
        "nvmlDeviceGetName": lambda handle: f"GPU {handle}",
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=1 << 37),
    }
    return SimpleNamespace(**{**parts, **changes})


def raising(*_: object) -> None:
    raise RuntimeError("NVML: driver not loaded")


def test_devices_are_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())
    devices = find_devices()
    assert devices[0] == Device(0, "GPU 0", Arch(9, 0), 132, 1 << 37, "580.10")
    assert len(devices) == 3
    assert find_native_archs() == (Arch(9, 0), Arch(12, 0))


def test_no_driver_means_no_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(nvmlInit=raising))
    assert find_devices() == ()


def test_a_device_without_attributes_has_no_sm_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(nvmlDeviceGetAttributes=raising))
    assert find_devices()[0].sm_count is None
