"""Devices as NVML tells of them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from sparkctl.arch import Arch
from sparkctl.errors import MissingTool
from sparkctl.toolchain import Device, Driver, find_devices, find_driver, find_native_archs


def fake_nvml(**changes: object) -> SimpleNamespace:
    capabilities = [(9, 0), (9, 0), (12, 0)]
    parts = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: b"580.10",
        "nvmlSystemGetCudaDriverVersion_v2": lambda: 13010,
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


def test_the_driver_says_which_cuda_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())
    assert find_driver() == Driver("580.10", (13, 1))


def test_no_driver_and_one_that_does_not_answer_are_told_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(nvmlInit=raising))
    assert find_driver(tmp_path / "version") is None
    (tmp_path / "version").touch()
    with pytest.raises(MissingTool, match="does not answer: NVML: driver not loaded"):
        find_driver(tmp_path / "version")
