"""The standalone runner for a GPU: it builds, and says what it holds where there is none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sparkctl.arch import parse_arch
from sparkctl.build import RUNNER_NAME, ensure_built, with_combines
from sparkctl.registry import load_registry, select_variants
from sparkctl.testing.case_file import encode_case
from sparkctl.testing.export import export_case, recorder_for
from sparkctl.testing.model import Case, DecodeCase, PrefillCase
from sparkctl.toolchain import find_devices

ROOT = Path(__file__).resolve().parents[2]
REGISTRY = load_registry(ROOT / "flags.yaml")
DECODE, PREFILL = "attn_decode_split_kv_mma.bf16.d64", "attn_prefill_split_q_mma.bf16.d64"
CASES: dict[str, tuple[Case, ...]] = {
    DECODE: (DecodeCase((37, 5), num_kv_heads=2, group=2, num_splits=2, slack=3), DecodeCase((0,), group=4)),
    PREFILL: (
        PrefillCase((20, 20), (37, 5), group=2, causal=True, slack=3),
        PrefillCase((3, 0, 20), (9, 4, 37), group=3, packed_q=True, packed_kv=True),
        PrefillCase((0, 0), (9, 4), packed_q=True, packed_kv=True),
    ),
}
pytestmark = pytest.mark.nvcc


@pytest.fixture(scope="module")
def runner() -> Path:
    devices = find_devices()
    variants = with_combines(REGISTRY, select_variants(REGISTRY, list(CASES)))
    arch = devices[0].arch if devices else parse_arch("sm_90")
    return ensure_built(REGISTRY, variants, arch=arch, backend="cuda", runner=True) / RUNNER_NAME


def run(runner: Path, *words: object) -> subprocess.CompletedProcess[str]:
    command = ["env", "-i", "PATH=/usr/bin:/bin", str(runner.resolve()), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_it_lists_its_variants_without_a_device(runner: Path) -> None:
    done = run(runner, "--list")
    assert (done.returncode, done.stderr) == (0, "")
    assert {DECODE, PREFILL, "attn_combine.bf16.d64"} <= {line.split()[0] for line in done.stdout.splitlines()}


def test_what_belongs_to_the_emulator_is_refused(runner: Path) -> None:
    done = run(runner, "--schedule", "random", "x.case")
    message = "error: --schedule belongs to the emulator, this runner is for a GPU\n"
    assert (done.returncode, done.stderr) == (2, message)


def test_without_a_device_it_says_so(runner: Path, tmp_path: Path) -> None:
    if find_devices():
        pytest.skip("a CUDA device is there")
    (tmp_path / "x.case").write_text("")
    done = run(runner, tmp_path)
    assert done.returncode == 3
    assert done.stderr.startswith("error: no CUDA device: ")


@pytest.mark.gpu
def test_cases_pass_on_a_device(runner: Path, tmp_path: Path) -> None:
    if not find_devices():
        pytest.skip("no CUDA device")
    for variant in select_variants(REGISTRY, list(CASES)):
        for case in CASES[variant.name]:
            data = encode_case(export_case(recorder_for(REGISTRY), variant, case))
            (tmp_path / f"{case.id}.case").write_bytes(data)
    done = run(runner, "--repeat", "2", tmp_path)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "5 cases, 0 failed"), done.stdout + done.stderr
