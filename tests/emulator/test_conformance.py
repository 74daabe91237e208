"""The same programs on a GPU and in the emulator: bit-equal, or for mma within the accumulation's bound."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from products import ROUNDINGS, product
from programs import KERNELS, ROOT, Outcome, compile_program, parse_outcome, run_case

from sparkctl.toolchain import find_devices, find_toolchain

pytestmark = pytest.mark.gpu

EQUAL = {
    "collectives": [
        *(f"shuffle_{dtype}" for dtype in ("int", "unsigned", "float", "double", "long")),
        *("vote", "reduce", "block_vote", "producer", "warp_header", "bits"),
    ],
    "async_copies": ["stream", "ld_global"],
    "matrix": ["ldmatrix", "mma_bf16_integers", "mma_fp16_integers"],
    "conversions": ["widen_bf16", "widen_fp16", "narrow_bf16", "narrow_fp16"],
    "grid": ["indices", "atomics", "most_threads"],
    "clusters": [
        *("indices", "indices_of_a_row", "indices_without_a_cluster", "barrier_without_a_cluster"),
        *("reduce", "ring", "rounds", "early_exit", "spin"),
    ],
}
BOUNDED = [f"{kernel}_{dtype}" for kernel in ("mma", "ldmatrix_mma") for dtype in ("bf16", "fp16")]
BOUNDED += ["mma_fp16_subnormals"]


def run_on_device(folder: Path, program: str, case: str) -> Outcome:
    devices = find_devices()
    if not devices:
        pytest.skip("no CUDA device")
    nvcc = find_toolchain().require_nvcc()
    built = folder / program
    if not built.exists():
        options = [f"-arch={devices[0].arch.name}", "-std=c++17", "-O2", "-cudart", "static"]
        options += [f"-L{folder}" for folder in nvcc.library_dirs]
        source = str(KERNELS / f"{program}.cu")
        subprocess.run([nvcc.path, *options, "-I", str(ROOT / "csrc"), "-o", str(built), source], check=True)
    done = subprocess.run([built, case], capture_output=True, text=True, timeout=60, check=True)
    return parse_outcome(done.stdout)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("conformance")


@pytest.mark.parametrize(("program", "case"), [(program, case) for program in EQUAL for case in EQUAL[program]])
def test_a_gpu_gives_the_bits_that_the_emulator_gives(built: Path, program: str, case: str) -> None:
    device = run_on_device(built, program, case)
    emulator = run_case(compile_program(program), case)
    assert (device.code, emulator.code) == (0, 0)
    assert device.raw == emulator.raw


@pytest.mark.parametrize("case", BOUNDED)
def test_a_gpus_mma_keeps_the_bound_that_the_emulator_keeps(built: Path, case: str) -> None:
    device = run_on_device(built, "matrix", case)
    emulator = run_case(compile_program("matrix"), case)
    for name in ("a", "b", "c"):
        np.testing.assert_array_equal(device[name], emulator[name])
    for outcome in (device, emulator):
        got, expected, magnitude = product(outcome, "bf16" if "bf16" in case else "fp16")
        assert (np.abs(got - expected) <= ROUNDINGS * 2.0**-24 * magnitude).all()
