"""The occupancy that `sparkctl regs` works out, against what the driver answers on the GPU here, for every variant.

python benchmarks/occupancy_on_device.py OUT.json [KERNEL...]

Needs a CUDA device, nvcc and cuobjdump. Each variant's cubin is loaded and cuOccupancyMaxActiveBlocksPerMultiprocessor
asked with its block and its dynamic shared memory. Exit code 1 where one differs, 3 where a tool or device is missing.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from sparkctl.errors import MissingTool, SparkctlError, WorkFailed  # noqa: E402
from sparkctl.registry import load_registry  # noqa: E402
from sparkctl.toolchain import find_devices, find_toolchain, run_tool  # noqa: E402
from sparkctl.workflows.regs import report_regs  # noqa: E402
from sparkctl.workflows.regs_model import KernelReport  # noqa: E402
from sparkctl.workflows.stamp import read_stamp  # noqa: E402

MAX_DYNAMIC_SHARED_SIZE = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


def main() -> int:
    """Build, ask, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("kernels", nargs="*", metavar="KERNEL")
    options = parser.parse_args()
    try:
        return compare(options.out, options.kernels)
    except SparkctlError as error:
        print(f"error: {error.message}", file=sys.stderr)
        return error.exit_code


def compare(out: Path, kernels: list[str]) -> int:
    """The JSON file, and a line for each kernel that differs."""
    devices = find_devices()
    if not devices:
        raise MissingTool("no CUDA device")
    toolchain = find_toolchain()
    if toolchain.cuobjdump is None:
        raise MissingTool("no cuobjdump")
    driver = Driver()
    arch = devices[0].arch
    report = report_regs(load_registry(ROOT / "flags.yaml"), kernels, archs=[arch], toolchain=toolchain)
    rows = []
    for row in report.rows:
        answer = driver.blocks_per_sm(row, cubin_of(row, toolchain.cuobjdump))
        assert row.occupancy is not None
        rows.append({"variant": row.name, "ours": row.occupancy.blocks_per_sm, "driver": answer})
    wrong = [row for row in rows if row["ours"] != row["driver"]]
    stamp = read_stamp(ROOT)
    record = {
        "schema_version": 1,
        "environment": {
            "device": devices[0].name,
            "arch": arch.name,
            "compiler": report.compiler,
            "commit": stamp.commit,
            "dirty": stamp.dirty,
        },
        "command": f"python benchmarks/occupancy_on_device.py {out.name}",
        "variants": len(rows),
        "different": len(wrong),
        "rows": rows,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    for row in wrong:
        print(f"{row['variant']}: {row['ours']} blocks per SM worked out, {row['driver']} by the driver")
    print(f"{len(rows)} kernels compared on {devices[0].name}: {len(wrong)} differ; saved to {out}")
    return 1 if wrong else 0


def cubin_of(row: KernelReport, cuobjdump: Path) -> bytes:
    """The device code in the variant's object."""
    with tempfile.TemporaryDirectory() as folder:
        run_tool([cuobjdump, "-xelf", "all", row.log.with_suffix(".o").absolute()], cwd=Path(folder))
        cubins = [path.read_bytes() for path in sorted(Path(folder).glob(f"*{row.arch.name}*.cubin"))]
    if len(cubins) != 1:
        raise WorkFailed(f"{row.name}: {len(cubins)} cubins for {row.arch.name} in its object")
    return cubins[0]


class Driver:
    """The few calls of libcuda that are needed, in the primary context of the first device."""

    def __init__(self) -> None:
        try:
            self._cuda = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise MissingTool(f"no CUDA driver: {error}") from error
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuInit", 0)
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)

    def blocks_per_sm(self, row: KernelReport, cubin: bytes) -> int:
        """What the driver says of the kernel with its block and dynamic shared memory."""
        module, function, blocks = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int(-1)
        self._call("cuModuleLoadData", ctypes.byref(module), cubin)
        try:
            self._call("cuModuleGetFunction", ctypes.byref(function), module, row.usage.function.encode())
            self._call("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED_SIZE, row.dynamic_smem_bytes)
            size = ctypes.c_size_t(row.dynamic_smem_bytes)
            name = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
            self._call(name, ctypes.byref(blocks), function, row.block_threads, size)
        finally:
            self._call("cuModuleUnload", module)
        return blocks.value

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._cuda, name)(*arguments)
        if code != 0:
            raise WorkFailed(f"{name} answers {code}")


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
