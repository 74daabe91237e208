"""What is pinned in benchmarks/regs, for some variants of each way to load and to compute; `make full` compares all."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import pytest
from hungry_project import missing, whole_toolchain

from sparkctl.arch import Arch, parse_archs
from sparkctl.registry import load_registry, runs_on, span_variants
from sparkctl.render.regs_vs import describe_change
from sparkctl.resources import decode_baseline
from sparkctl.toolchain import find_native_archs
from sparkctl.workflows.regs import report_regs
from sparkctl.workflows.regs_pins import FOLDER, check_pins, pin_path
from sparkctl.workflows.regs_vs import numbers_of

pytestmark = pytest.mark.nvcc
REGISTRY = load_registry(Path(__file__).resolve().parents[2] / "flags.yaml")
ARCHS = parse_archs("sm_89,sm_90", native=find_native_archs)
# The runner's tests build the first three for sm_90 as well, those of rebuilds and of the device code the next three.
CHOSEN = (
    "attn_decode_split_kv_mma.bf16.d64",
    "attn_prefill_split_q_mma.bf16.d64",
    "attn_combine.bf16.d64",
    "fa_split_gqa.bf16.d32",
    "attn_decode_split_kv.bf16.d32",
    "fa_split_gqa.bf16.d128",
    "attn_merge_states.bf16.d64",
)


@pytest.mark.parametrize("arch", ARCHS, ids=lambda arch: arch.name)
def test_every_variant_is_pinned_and_no_other(arch: Arch) -> None:
    there = {v.name for kernel in REGISTRY.kernels.values() for v in span_variants(kernel) if runs_on(v, arch)}
    path = pin_path(REGISTRY, arch)
    for compiler, pins in decode_baseline(path.read_text(encoding="utf-8"), str(path)).compilers.items():
        assert {name.split(" ")[0] for name in pins} == there, f"{compiler}: sparkctl regs --arch {arch} --update"


def test_some_variants_are_as_pinned() -> None:
    toolchain = whole_toolchain()
    compiler = f"nvcc {toolchain.require_nvcc().version}"
    for arch in ARCHS:
        path = pin_path(REGISTRY, arch)
        if compiler not in decode_baseline(path.read_text(encoding="utf-8"), str(path)).compilers:
            missing(f"{compiler}: {FOLDER / path.name} has no pins of it")
    report = report_regs(REGISTRY, CHOSEN, archs=ARCHS, toolchain=toolchain)
    outcome = check_pins(
        REGISTRY,
        report,
        numbers_of(report),
        selection=CHOSEN,
        today=datetime.date.today(),
        environ={name: value for name, value in os.environ.items() if not name.startswith("SPARKCTL_FLAG_")},
    )
    said = [f"{one.change.name} {one.change.arch}: {describe_change(one.change)}" for one in outcome.failures]
    assert outcome.passed, "\n".join([*said, outcome.update])
    assert outcome.compared == len(CHOSEN) * len(ARCHS)
