"""The order of threads and blocks and the arrival of copies change no bit of any kernel's results, partials among them.

A kernel with a missing barrier or too weak a wait reads what another order, or another moment, would not give it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from runner_calls import REGISTRY, exported, runner_call, write

from sparkctl.build import DEFAULT_ARCH, RUNNER_NAME, ensure_built, with_combines
from sparkctl.registry import Variant, select_variants
from sparkctl.testing.case_file import decode_case
from sparkctl.testing.model import Case, CombineCase, DecodeCase, MergeCase, PrefillCase, StreamCase

SCHEDULES, ARRIVALS = ("ascending", "descending", "random"), ("late", "early", "random")
SETTINGS = tuple(product(SCHEDULES, ARRIVALS))
# Several tiles a split, so that buffers are refilled; splits and sequences without keys; rows in two passes.
DECODE = DecodeCase((260, 0, 43), num_kv_heads=2, group=3, qo_len=3, num_splits=2, causal=True, slack=2)
LONG = DecodeCase((333,), group=9, qo_len=2)
PREFILL = PrefillCase((40, 40), (210, 70), num_kv_heads=2, group=3, causal=True, slack=2)
PACKED = PrefillCase((3, 0, 70), (9, 4, 150), group=2, packed_q=True, packed_kv=True)
OPTIONS = {"softcap": 2.0, "mask": "rank4", "sinks": True}
CASES: Mapping[str, tuple[Case, ...]] = {
    "decode": (DECODE, LONG, replace(DECODE, causal=False, window=20, **OPTIONS)),
    "prefill": (PREFILL, PACKED, replace(PREFILL, causal=False, window=20, **OPTIONS)),
    "combine": (CombineCase(2, 2, 3, 5, "empty_middle"), CombineCase(1, 1, 2, 40, "far_apart", sinks=True)),
    "merge_states": (MergeCase(2, 2, 3, 4, "empty_first"), MergeCase(1, 1, 2, 33)),
    "bench": (StreamCase(65520, 3), StreamCase(112, 1)),
}


def chosen() -> list[Variant]:
    """Every variant of bf16 and head_dim 64, and those that have neither."""
    where = {"dtype": ["bf16"], "head_dim": ["64"]}
    return list(select_variants(REGISTRY, arch=DEFAULT_ARCH, where=where))


def cases_of(variant: Variant) -> tuple[Case, ...]:
    paged = variant.kernel.family == "paged_decode" or dict(variant.values).get("paged")
    if not paged:
        return CASES[variant.kernel.family]
    cases = CASES["prefill" if variant.kernel.family == "prefill" else "decode"]
    packed = {"packed_kv": False} if variant.kernel.family == "prefill" else {}
    return tuple(replace(case, page_size=24, slack=1, **packed) for case in cases)


Outputs = Mapping[tuple[str, str], Mapping[str, bytes]]  # of each setting, by the case's path


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    """Every tensor that every case writes under each setting; whether it is right is for the cases' own tests."""
    variants = chosen()
    built = ensure_built(
        REGISTRY, with_combines(REGISTRY, variants), arch=DEFAULT_ARCH, backend="emulator", runner=True
    )
    folder = tmp_path_factory.mktemp("bits")
    files = [exported(variant.name, case) for variant in variants for case in cases_of(variant)]
    cases = write(folder / "cases", *files)
    return {setting: outputs_under(built / RUNNER_NAME, cases, folder, *setting) for setting in SETTINGS}


def outputs_under(runner: Path, cases: Path, folder: Path, schedule: str, arrival: str) -> dict[str, bytes]:
    """By `variant case tensor`; those of a case that ends in an error are not there."""
    out = folder / f"{schedule}-{arrival}"
    words = ("--schedule", schedule, "--async-mode", arrival, "--seed", "7", "--write", out, cases)
    runner_call(runner, folder)(*words)
    found: dict[str, bytes] = {}
    for path in out.rglob("*.out"):
        file = decode_case(path.read_bytes())
        for name, entry in file.outputs.items():
            assert entry.block is not None
            found[f"{file.variant} {file.case} {name}"] = file.blocks[entry.block]
    return found


def test_no_kernel_is_left_out() -> None:
    assert {variant.kernel.name for variant in chosen()} == set(REGISTRY.kernels)


@pytest.mark.parametrize("name", [variant.name for variant in chosen()])
def test_no_schedule_and_no_arrival_of_copies_changes_a_bit(outputs: Outputs, name: str) -> None:
    first = {key: data for key, data in outputs[SETTINGS[0]].items() if key.startswith(f"{name} ")}
    cases = cases_of(next(variant for variant in chosen() if variant.name == name))
    assert {key.split()[1] for key in first} == {case.id for case in cases}
    for setting in SETTINGS[1:]:
        changed = [key for key, data in first.items() if outputs[setting].get(key) != data]
        assert changed == [], setting
