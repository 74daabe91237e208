"""doctor: this Python and the packages that tests and operators import, each tried in a process of its own."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from sparkctl import __version__
from sparkctl.errors import SparkctlError
from sparkctl.toolchain import run_tool
from sparkctl.workflows.finding import Finding

# module -> (what pip calls it, what it is for)
PACKAGES = {
    "torch": ("torch", "tests and operators"),
    "numpy": ("numpy", "tests and operators"),
    "tvm_ffi": ("apache-tvm-ffi", "the bindings of every library"),
}
_IMPORT = """\
import json, sys
import {name} as module
cuda = getattr(getattr(module, "version", None), "cuda", None)
sees = bool(cuda) and module.cuda.is_available()
print(json.dumps([str(module.__version__), module.__file__, cuda, sees]))
"""
_TIMEOUT_S = 120.0


def look_at_python() -> Iterator[Finding]:
    """sparkctl, Python and the packages."""
    yield Finding("sparkctl", "ok", f"{__version__} on {platform.system()} {platform.machine()}")
    yield Finding("python", "ok", platform.python_version(), sys.executable)
    with ThreadPoolExecutor(len(PACKAGES)) as pool:
        yield from pool.map(_look_at_package, PACKAGES)


def torch_sees_device() -> tuple[str | None, bool]:
    """The CUDA version that torch was built for, None for a build without, and whether it can use a device here."""
    _, _, cuda, sees = _import("torch")
    return cuda, sees


def _look_at_package(module: str) -> Finding:
    package, purpose = PACKAGES[module]
    try:
        version, path, _, _ = _import(module)
    except SparkctlError as error:
        said = error.message.strip().splitlines()[-1].strip()
        fix = f"{sys.executable} -m pip install --force-reinstall {package}"
        return Finding(package, "error", f"cannot be imported, and is needed for {purpose}: {said}", fix=fix)
    return Finding(package, "ok", version, path.rpartition("/")[0])


def _import(module: str) -> tuple[str, str, str | None, bool]:
    """Version, file, CUDA version and whether a device can be used. A crash ends only the process that imports."""
    script = _IMPORT.format(name=module)
    said = run_tool([sys.executable, "-c", script], timeout=_TIMEOUT_S).stdout.strip().splitlines()
    version, path, cuda, sees = json.loads(said[-1])
    return version, path, cuda, sees
