"""doctor: GPUs, the driver and what needs them; git."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping

from sparkctl.errors import SparkctlError
from sparkctl.toolchain import find_devices, find_driver
from sparkctl.toolchain.ncu import find_ncu
from sparkctl.workflows.doctor_compilers import compilers_of
from sparkctl.workflows.doctor_python import torch_sees_device
from sparkctl.workflows.finding import Finding, found

_GIB = 1 << 30


def look_at_devices(environ: Mapping[str, str]) -> Iterator[Finding]:
    """What bench, proof, profile and tests on a device need."""
    yield from found("driver", lambda: _look_at_driver(environ), state="warning")
    yield from found("ncu", lambda: _look_at_ncu(environ), state="absent")
    git = shutil.which("git", path=environ.get("PATH", ""))
    if git:
        yield Finding("git", "ok", "found", git)
    else:
        yield Finding("git", "absent", "none, so --vs REV cannot run", fix="install git")


def _look_at_driver(environ: Mapping[str, str]) -> Iterator[Finding]:
    driver = find_driver()
    if driver is None:
        what = "none: build, regs, sass and tests on the emulator run; bench and proof need a GPU"
        yield Finding("GPU", "absent", what, fix="bench --estimate GPU prints floor times without one")
        return
    host_nvcc = compilers_of(environ)[1]
    runs = f"{driver.version}, runs CUDA up to {driver.cuda[0]}.{driver.cuda[1]}"
    built = int(host_nvcc.version.partition(".")[0]) if host_nvcc else 0
    if built > driver.cuda[0]:
        fix = f"a newer driver, or an nvcc of CUDA {driver.cuda[0]} in SPARKCTL_NVCC"
        yield Finding("driver", "warning", f"{runs}: what nvcc {built} builds does not run here", fix=fix)
    else:
        yield Finding("driver", "ok", runs)
    devices = find_devices()
    for device in devices:
        what = f"{device.name}, {device.arch.name}, {device.memory_bytes / _GIB:.0f} GiB"
        yield Finding(f"GPU {device.index}", "ok", what)
    if not devices:
        fix = "nvidia-smi -L shows whether a device is there; MIG and containers may hide it"
        yield Finding("GPU", "warning", "the driver shows no device", fix=fix)
        return
    yield from _look_at_torch(driver.cuda)


def _look_at_torch(driver_cuda: tuple[int, int]) -> Iterator[Finding]:
    try:
        cuda, sees = torch_sees_device()
    except SparkctlError:
        return  # said among the packages
    name = "torch on GPU"
    if cuda is None:
        what = "this torch is built without CUDA: tests on the device and bench cannot run"
        yield Finding(name, "warning", what, fix="install a torch built for CUDA (pytorch.org lists them)")
    elif not sees:
        what = f"torch is built for CUDA {cuda} and cannot use the device; the driver runs {driver_cuda[0]}.x"
        yield Finding(name, "warning", what, fix="a torch for the driver's CUDA; unset CUDA_VISIBLE_DEVICES")
    else:
        yield Finding(name, "ok", f"CUDA {cuda}")


def _look_at_ncu(environ: Mapping[str, str]) -> Iterator[Finding]:
    try:
        yield Finding("ncu", "ok", "found", str(find_ncu(environ)))
    except SparkctlError as error:
        state = "warning" if environ.get("SPARKCTL_NCU") else "absent"
        what = error.message if state == "warning" else "none, so sparkctl profile cannot run"
        yield Finding("ncu", "warning" if state == "warning" else "absent", what, fix=error.hint)
