"""The example of docs/own-kernels.md and a kernel of `sparkctl new`, in one tree outside ours: built once, tested,
broken in the ways that a check must find, and timed on a device that is made up."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkctl.arch import parse_arch
from sparkctl.bench.facts import DeviceFacts
from sparkctl.build import ensure_built
from sparkctl.cli.app import main
from sparkctl.registry import load_registry, select_variants
from sparkctl.render.bench_own import own_bench_json
from sparkctl.runtime import load_library
from sparkctl.testing.cases import cases_for
from sparkctl.testing.prepare import Target
from sparkctl.testing.results import Selection
from sparkctl.testing.suite import run_variant
from sparkctl.workflows.bench_own import Bench, OwnRequest, run_own_bench

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "rmsnorm"
VARIANTS = ("rmsnorm.bf16", "scale.fp32")
FACTS = DeviceFacts("made up", "sm_90", 132, 1 << 10, None, None, "2", None, "3", None)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("own")
    for name in ("flags.yaml", "rmsnorm.cu", "rmsnorm_cases.py", "rmsnorm_check.cpp"):
        shutil.copy(EXAMPLE / name, folder)
    assert main(["-q", "--project", str(folder), "new", "scale"]) == 0
    build(folder)
    yield folder


def build(folder: Path) -> Path:
    registry = load_registry(folder)
    return ensure_built(registry, select_variants(registry, VARIANTS), arch=parse_arch("sm_90"), backend="emulator")


@pytest.fixture
def tree(built: Path) -> Iterator[Path]:
    """What a test changes is put back."""
    texts = {path: path.read_text(encoding="utf-8") for path in built.iterdir() if path.is_file()}
    yield built
    for path, text in texts.items():
        if path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def failure_of(tree: Path) -> str:
    """What is wrong with one case of the example, on the library that is there."""
    registry = load_registry(tree)
    (variant,) = select_variants(registry, ("rmsnorm.bf16",))
    library = load_library(tree / "build" / "emulator-sm_90-release")
    cases = tuple(case for case in cases_for(variant) if case.id == "rows3-cols31")
    (failure,) = run_variant(Target(library, "cpu"), Selection(variant, cases)).failures
    return failure.message


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, old
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_both_pass_as_they_are(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("test", "--backend", "emulator", "--json", "--repeat", "2", *VARIANTS)
    assert main(["-q", "--project", str(tree), *words]) == 0
    rows = json.loads(capsys.readouterr().out)["variants"]
    assert [(row["name"], row["cases"]) for row in rows] == [("rmsnorm.bf16", 6), ("scale.fp32", 4)]
    assert all(row["worst_error"] < 1 for row in rows)
    assert all(row["launches"] == 2 * row["cases"] for row in rows)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("return x * weight /", "return 1.1 * x * weight /", "; off by "),
        ("torch.sqrt(x.square()", "torch.sqrt(y.square()", "rmsnorm_cases.py:37: reference(): NameError"),
        ("kernel(x, weight, out, eps)", "kernel(x, weight, out)", "eps is missing: 3 arguments were given"),
        ("kernel(x, weight, out, eps)", "kernel(x, weight, out, eps, 1)", "5 arguments, accepted are 4"),
        ("kernel(x, weight, out, eps)", "kernel(x, weight[:-1], out, eps)", "accepted is"),
        ("kernel(x, weight, out, eps)", "kernel(x.float(), weight, out, eps)", "x has dtype float32, accepted is bf"),
        ("kernel(x, weight, out, eps)", "kernel(x, weight, out, True)", "eps is a bool, accepted is a float"),
        ("kernel(x, weight, out, eps)", "kernel(x, weight, x, eps)", "the reference"),
        (
            "kernel(x, weight, out, eps)",
            "out.copy_(reference(x=x.double(), weight=weight, eps=eps))",
            "the library launched 0 kernels",
        ),
        ("    return out\n", "    x.zero_()\n    return out\n", "x was written, and is no output"),
        ("    return out\n", "    return out, out\n", "run() gave 2 outputs, reference() 1"),
        ("    return out\n", "    return out[:1, :1]\n", "the reference [3, 31]"),
    ],
)
def test_a_fault_in_the_file_is_found(old: str, new: str, said: str, tree: Path) -> None:
    edit(tree / "rmsnorm_cases.py", old, new)
    assert said in failure_of(tree)


def test_a_write_beside_the_output_is_found(tree: Path) -> None:
    edit(
        tree / "rmsnorm.cu", "    out_row[i] = ", "    if (i == 0) out[gridDim.x * cols] = x_row[0];\n    out_row[i] = "
    )
    build(tree)
    assert failure_of(tree) == "1 elements were written outside of an output"


def test_the_runner_is_refused_and_the_program_finds_a_race(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("-q", "--project", str(tree), "test")
    assert main([*words, "rmsnorm.bf16", "--sanitize", "race"]) == 2
    assert "hint: a program around it in one file: sparkctl test FILE.cpp --sanitize race" in capsys.readouterr().err
    program = str(tree / "rmsnorm_check.cpp")
    assert main([*words, program, "--sanitize", "race"]) == 0
    edit(tree / "rmsnorm.cu", "  __syncthreads();", "  //")
    capsys.readouterr()
    assert main([*words, program, "--sanitize", "race"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "race: reads 4 bytes at byte 0 of 'warp_sum_smem'" in said


class FakeEvent:
    def __init__(self, device: FakeDevice) -> None:
        self.device, self.at_us = device, 0.0

    def record(self) -> None:
        self.device.us += 1000
        self.at_us = self.device.us

    def synchronize(self) -> None: ...

    def elapsed_us(self, end: FakeEvent) -> float:
        return end.at_us - self.at_us


class FakeDevice:
    """Work runs at once on the CPU; a replay takes 200 ms, of every second graph of three (the copy) 160 ms."""

    name = "cpu"

    def __init__(self) -> None:
        self.us, self.graphs = 0.0, 0

    def event(self) -> FakeEvent:
        return FakeEvent(self)

    def synchronize(self) -> None: ...

    def run_aside(self, work: Callable[[], None]) -> None:
        work()

    def capture(self, work: Callable[[], None]) -> FakeGraph:
        work()
        self.graphs += 1
        return FakeGraph(self, work, 8.0 if self.graphs % 3 == 2 else 10.0)

    def hold(self, cycles: int) -> None: ...

    def now(self) -> float:
        return self.us / 1e6

    def free_bytes(self) -> None: ...

    def release(self) -> None: ...

    def reset_persisting_l2(self) -> None: ...


class FakeGraph:
    def __init__(self, device: FakeDevice, work: Callable[[], None], us: float) -> None:
        self.device, self.work, self.time_us = device, work, us

    def replay(self) -> None:
        self.work()
        self.device.us += 20_000 * self.time_us


class FakeClocks:
    def read(self) -> tuple[int | None, tuple[str, ...]]:
        return 1980, ()


def bench(tree: Path) -> dict[str, Any]:
    registry = load_registry(tree)
    arch = parse_arch("sm_90")

    def open_bench(*_: object) -> Bench:
        return Bench(FakeDevice(), FakeClocks(), FACTS, load_library(build(tree)))

    run = run_own_bench(registry, OwnRequest(("rmsnorm.bf16",), budget_s=0.1), arch=arch, open_bench=open_bench)
    return own_bench_json(run)


def small(tree: Path) -> Path:
    path = tree / "rmsnorm_cases.py"
    edit(path, "for cols in (4096, 8192) for rows in (64, 4096, 16384)]", "for rows in (2, 3) for cols in (64,)]")
    return path


def test_bench_times_the_kernel_beside_peers_and_a_copy(tree: Path) -> None:
    small(tree)
    report = bench(tree)
    assert report["failures"] == []
    assert [row["case"] for row in report["rows"]] == ["rows2-cols64", "rows3-cols64"]
    row = report["rows"][0]
    assert row["bytes"] == (2 * 2 * 64 + 64) * 2
    assert row["copy_share"] == pytest.approx(row["copy"]["time_us"] / row["time_us"])
    assert row["copy_share"] == pytest.approx(0.8, rel=0.01)
    assert row["tbps"] == pytest.approx(row["bytes"] / row["time_us"] / 1e6)
    assert row["peers"]["torch rms_norm"]["samples"] >= 20
    assert 0 < row["error"] < 1


def test_bench_refuses_wrong_outputs_and_drops_wrong_peers(tree: Path) -> None:
    path = small(tree)
    edit(path, "nn.functional.rms_norm(x, weight.shape", "nn.functional.rms_norm(2 * x + 1, weight.shape")
    reason = bench(tree)["rows"][0]["peers"]["torch rms_norm"]["reason"]
    assert reason.startswith("its output is off by ")
    edit(path, "return x * weight /", "return 1.1 * x * weight /")
    report = bench(tree)
    assert report["rows"] == []
    assert "wrong while it was timed: out[" in report["failures"][0]["reason"]
