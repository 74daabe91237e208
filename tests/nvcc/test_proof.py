"""A proof whose tests, accuracy and registers are real, on the emulator; nothing is timed there."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hungry_project import whole_toolchain

from sparkctl.arch import Arch
from sparkctl.bench.ab import Ab
from sparkctl.bench.axes import DecodeCase, Heads
from sparkctl.bench.results import Stamp
from sparkctl.build import SilentProgress
from sparkctl.errors import WorkFailed
from sparkctl.registry import load_registry
from sparkctl.workflows import proof
from sparkctl.workflows.proof import ProofDevice, run_proof
from sparkctl.workflows.proof_plan import ProofRequest
from sparkctl.workflows.suite import SuiteOptions, SuitePlan

ROOT = Path(__file__).resolve().parents[2]
CASES = (DecodeCase(1, 4096, Heads(8, 2), 32),)
REQUEST = ProofRequest(Ab("FAPIPE", ("0", "1")), CASES)
DEVICE = ProofDevice("the emulator", Arch(9, 0), "emulator")


class Watcher:
    """Keeps what it is told."""

    build = SilentProgress()

    def __init__(self) -> None:
        self.told: list[str] = []
        self.suite: Any = self

    def begin(self, part: str) -> None:
        self.told.append(f"{part} begins")

    def end(self, part: str) -> None:
        self.told.append(f"{part} ends")

    def start(self, plan: SuitePlan) -> None:
        self.told.append(f"{plan.num_cases} cases")

    def case(self, *args: Any) -> None:
        pass

    def stop(self) -> None:
        pass


def no_bench(*args: Any) -> Any:
    raise AssertionError("nothing is timed")


@pytest.fixture
def few_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four of each variant."""
    whole = proof.plan_suite

    def plan(registry: Any, options: SuiteOptions, environ: Any) -> SuitePlan:
        found = whole(registry, options, environ)
        return replace(found, selections=tuple(replace(s, cases=s.cases[:4]) for s in found.selections))

    monkeypatch.setattr(proof, "plan_suite", plan)


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    monkeypatch.setattr(proof, "read_stamp", lambda root: Stamp("0123456789ab", False))
    return {**os.environ, "SPARKCTL_BUILD_DIR": str(tmp_path_factory.getbasetemp() / "proof")}


@pytest.mark.nvcc
@pytest.mark.full
def test_a_real_arm_that_answers_wrongly_is_refused_by_tests_and_accuracy(
    few_cases: None, clean: dict[str, str], tmp_path: Path
) -> None:
    """The pipelined arm alone is broken, in its source."""
    shutil.copytree(ROOT / "csrc", tmp_path / "csrc")
    shutil.copy(ROOT / "flags.yaml", tmp_path)
    source = tmp_path / "csrc" / "decode" / "split_gqa.cu"
    right = "const DecodeParams& p = *static_cast<const DecodeParams*>(params);"
    wrong = "DecodeParams p = *static_cast<const DecodeParams*>(params); if (SPARK_STAGES == 2) p.scale_log2 *= 2;"
    text = source.read_text()
    assert right in text
    source.write_text(text.replace(right, wrong))
    watcher = Watcher()
    with pytest.raises(WorkFailed) as caught:
        run_proof(
            load_registry(tmp_path),
            REQUEST,
            device=DEVICE,
            toolchain=whole_toolchain(),
            watcher=watcher,
            environ={**clean, "SPARKCTL_BUILD_DIR": str(tmp_path / "build")},
            open_bench=no_bench,
        )
    message = caught.value.message
    assert re.search(r"^tests: FAPIPE=1: [1-4] of 4 cases failed$", message, re.M)
    assert "accuracy: fa_split_gqa, FAPIPE=1: an output is off by " in message
    assert "accuracy: fa_split_gqa, FAPIPE=1: top-1 agreement " in message
    assert "FAPIPE=0" not in message
    assert "benchmark begins" not in watcher.told
