"""The kernels are clean under the checks of `--sanitize`, and each check finds the faults that are planted in them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import pytest

from sparkctl.build import DEFAULT_ARCH, RUNNER_NAME, Sanitizer, ensure_built, with_combines
from sparkctl.cli.app import main
from sparkctl.registry import Variant, load_registry, select_variants
from sparkctl.testing.export import recorder_for
from sparkctl.testing.model import Case, CombineCase, DecodeCase, MergeCase, PrefillCase, StreamCase
from sparkctl.testing.results import Selection
from sparkctl.testing.standalone import StandaloneTarget, run_standalone

ROOT = Path(__file__).resolve().parents[2]
REGISTRY = load_registry(ROOT / "flags.yaml")
SANITIZERS: tuple[Sanitizer, ...] = get_args(Sanitizer)

# Every kernel, every way to load its tiles; few pairs of dtype and head_dim: each pair of a decode needs its combine.
CHOSEN = (
    "attn_decode_split_kv.fp16.d96",
    "attn_decode_split_kv_mma.bf16.d192.kv32",
    "attn_decode_split_kv_mma.bf16.d64",
    "attn_decode_split_kv_mma.bf16.d64.reload.r16",
    "attn_decode_split_kv_mma.bf16.d64.s1",
    "attn_decode_split_kv_mma.fp16.d32.s4.kv128",
    "attn_paged_decode_split_kv.fp16.d96",
    "attn_paged_decode_split_kv_mma.bf16.d192.kv32",
    "attn_paged_decode_split_kv_mma.bf16.d64.kv128",
    "attn_paged_decode_split_kv_mma.bf16.d192.s1.r16",
    "attn_paged_decode_split_kv_mma.fp16.d32.s4.kv128",
    "fa_split_gqa.bf16.d64",
    "fa_split_gqa.bf16.d64.s1.p1",
    "fa_split_gqa.fp16.d32.p1",
    "fa_split_gqa.fp16.d32.s1",
    "attn_prefill_split_q.bf16.d64.l8",
    "attn_prefill_split_q.fp16.d32.p1",
    "attn_prefill_split_q_mma.bf16.d64.p1",
    "attn_prefill_split_q_mma.fp16.d96",
    "attn_combine.bf16.d64",
    "attn_combine.fp16.d96",
    "attn_merge_states.bf16.d96",
    "stream_read.u4",
)
# In `make check`; all of them in `make full`.
IN_CHECK = (
    "attn_decode_split_kv.fp16.d96",
    "attn_decode_split_kv_mma.bf16.d64",
    "attn_decode_split_kv_mma.bf16.d64.reload.r16",
    "attn_paged_decode_split_kv.fp16.d96",
    "attn_paged_decode_split_kv_mma.bf16.d64.kv128",
    "fa_split_gqa.bf16.d64",
    "fa_split_gqa.bf16.d64.s1.p1",
    "attn_prefill_split_q.bf16.d64.l8",
    "attn_prefill_split_q_mma.bf16.d64.p1",
    "attn_combine.bf16.d64",
    "attn_merge_states.bf16.d96",
    "stream_read.u4",
)
AXES = ("stages", "block_kv", "q_frag", "rows", "paged", "lanes")  # those that change what threads do beside each other

# A sequence without keys, splits without any, rows in two passes, buffers that are refilled; sizes that end no tile.
DECODE = DecodeCase((150, 0, 43), num_kv_heads=2, group=3, qo_len=3, num_splits=4, causal=True, slack=2)
LONG = DecodeCase((261,), group=9, qo_len=2, num_splits=2, layout="padded")
PREFILL = PrefillCase((40, 40), (150, 70), num_kv_heads=2, group=3, causal=True, slack=2)
PACKED = PrefillCase((3, 0, 70), (9, 4, 150), group=2, packed_q=True, packed_kv=True)
OPTIONS = {"causal": False, "window": 20, "softcap": 2.0, "mask": "rank4", "sinks": True}
WIDEST = 2**31 - 1  # of windows: sums with it leave an int
CASES: Mapping[str, tuple[Case, ...]] = {
    "decode": (DECODE, LONG, replace(DECODE, **OPTIONS), DecodeCase((40,), group=2, window=WIDEST)),
    "prefill": (PREFILL, PACKED, replace(PREFILL, **OPTIONS), PrefillCase((5,), (40,), group=2, window=WIDEST)),
    "combine": (CombineCase(2, 2, 3, 5, "empty_middle"), CombineCase(1, 1, 2, 40, "far_apart", sinks=True)),
    "merge_states": (MergeCase(2, 2, 3, 4, "empty_first"), MergeCase(1, 1, 2, 33)),
    "bench": (StreamCase(65520, 3), StreamCase(112, 1)),
}


def variant(name: str) -> Variant:
    (found,) = select_variants(REGISTRY, [name], arch=DEFAULT_ARCH)
    return found


def cases_of(chosen: Variant) -> tuple[Case, ...]:
    """Over pages with a rest in the last one, with entries behind it that nobody may read."""
    family = chosen.kernel.family
    if family != "paged_decode" and not dict(chosen.values).get("paged"):
        return CASES[family]
    if family == "prefill":
        return tuple(replace(case, page_size=24, slack=1, packed_kv=False) for case in CASES[family])  # type: ignore
    return tuple(replace(case, page_size=24, slack=1, layout="contiguous") for case in CASES["decode"])  # type: ignore


def test_every_kernel_and_every_way_to_load_a_tile_is_there() -> None:
    chosen = [variant(name) for name in CHOSEN]
    assert {each.kernel.name for each in chosen} == set(REGISTRY.kernels)
    assert {variant(name).kernel.name for name in IN_CHECK} == set(REGISTRY.kernels)
    for kernel in REGISTRY.kernels.values():
        values = [dict(each.values) for each in chosen if each.kernel.name == kernel.name]
        for axis in kernel.axes:
            if axis.name in AXES:
                assert {value[axis.name] for value in values} == set(axis.values), (kernel.name, axis.name)


@pytest.fixture(scope="module")
def target() -> Callable[[Sanitizer, str], StandaloneTarget]:
    """The runner of one check with the variants of `make check`, or with all that are chosen."""
    built: dict[tuple[Sanitizer, bool], StandaloneTarget] = {}

    def find(sanitizer: Sanitizer, name: str) -> StandaloneTarget:
        key = sanitizer, name in IN_CHECK
        if key not in built:
            names = IN_CHECK if name in IN_CHECK else CHOSEN
            variants = with_combines(REGISTRY, [variant(name) for name in names])
            folder = ensure_built(REGISTRY, variants, arch=DEFAULT_ARCH, backend="emulator", sanitizer=sanitizer)
            built[key] = StandaloneTarget(recorder_for(REGISTRY), folder / RUNNER_NAME)
        return built[key]

    return find


@pytest.mark.parametrize(
    "name", [name if name in IN_CHECK else pytest.param(name, marks=pytest.mark.full) for name in CHOSEN]
)
@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_a_kernel_is_clean(
    target: Callable[[Sanitizer, str], StandaloneTarget], sanitizer: Sanitizer, name: str
) -> None:
    chosen = variant(name)
    cases = cases_of(chosen)
    result = run_standalone(target(sanitizer, name), Selection(chosen, cases))
    assert [f"{failure.case_id}: {failure.message}" for failure in result.failures] == []
    assert result.case_ids == tuple(case.id for case in cases)


@dataclass(frozen=True)
class Planted:
    """Edits of one file, the variant that shows them in which cases, and what the report says behind file and line."""

    sanitizer: Sanitizer
    file: str
    edits: tuple[tuple[str, str], ...]
    variant: str
    cases: str
    words: tuple[str, ...]
    line: str  # a part of the line that the report names, as it is after the edits


SCALAR, MMA = "attn_decode_split_kv.fp16.d96", "attn_decode_split_kv_mma.bf16.d64"
PLANTED = {
    "weights are read before the warp has written them": Planted(
        "race",
        "attention/split_kv.cuh",
        (("    __syncwarp();  // the row's weights are written\n", ""),),
        SCALAR,
        "odd_group and g9",
        ("race: writes 4 bytes at byte 4 of 'weight_smem', which thread 0 read at csrc/attention/split_kv.cuh:",),
        "weight_row[lane] = weight;",
    ),
    "V is read before every lane's copy has arrived": Planted(
        "race",
        "attention/split_kv_mma.cuh",
        (("    __syncwarp();  // V of this tile is visible\n", ""),),
        MMA,
        "odd_group and g9",
        ("ldmatrix", "of 'kv_smem', which thread", "by cp.async", "no __syncwarp or barrier orders the two"),
        "ptx::ldmatrix_x4_trans(",
    ),
    "a stage is refilled under the warps that read it": Planted(
        "race",
        "attention/split_gqa.cuh",
        (("__syncthreads();  // the tile is written, and all warps", "//"),),
        "fa_split_gqa.bf16.d64",
        "odd_group and g9",
        ("of 'kv_smem', which thread", "by cp.async", "no barrier orders the two"),
        "",
    ),
    "a tile of prefill is read before all warps have copied it": Planted(
        "race",
        "prefill/split_q_mma.cuh",
        (("    __syncthreads();  // the tile (and Q) is visible to all", "    __syncwarp();  //"),),
        "attn_prefill_split_q_mma.fp16.d96",
        "causal_across_tiles",
        ("of 'smem', which thread", "by cp.async", "no barrier orders the two"),
        "",
    ),
    "part lanes' sums are read before they are written": Planted(
        "race",
        "combine/merge.cuh",
        (("  __syncthreads();  // all part lanes' sums", "  //"),),
        "attn_combine.bf16.d64",
        "model_shape and s16",
        ("of 'acc_smem', which thread", "barrier orders the two"),
        "acc_smem[lane * VECTORS + self.vector]",
    ),
    "the merge does not wait for the partials": Planted(
        "race",
        "combine/combine.cuh",
        (("  ptx::griddepcontrol_wait();", "  //"),),
        SCALAR,
        "odd_group and g9",
        ("of 'part_", "which kernel (attn_decode_split_kv_kernel<", "this thread has not passed griddepcontrol.wait"),
        "",
    ),
    "a tile ends one key late": Planted(
        "memory",
        "attention/split_kv.cuh",
        (("if (kv + row < kv_end) vector", "if (kv + row <= kv_end) vector"),),
        SCALAR,
        "odd_group and g9",
        ("reads 4 bytes outside of the kernel's memory", "past the end of 'k', which has 37248"),
        "if (kv + row <= kv_end) vector",
    ),
    "a row of shared memory is one element short": Planted(
        "memory",
        "attention/split_kv.cuh",
        (("SHARED_ARRAY(float, weight_smem, SCALAR_ROWS* SCALAR_TILE)", "SHARED_ARRAY(float, weight_smem, 255)"),),
        SCALAR,
        "odd_group and g9",
        ("writes 4 bytes outside of shared memory: 4 bytes at byte 1020 of 'weight_smem', which has 1020",),
        "weight_row[lane] = weight;",
    ),
    "a split without keys writes no maximum": Planted(
        "memory",
        "attention/split_kv.cuh",
        (("  if (lane == 0) {\n", "  if (lane == 0 && range.begin < range.end) {\n"),),
        SCALAR,
        "more_splits_than_tiles",
        ("attn_combine_kernel", "reads 4 bytes", "nothing has written byte", "of 'part_max'"),
        "",
    ),
    "the offset of a page is formed in 32 bits": Planted(
        "undefined",
        "attention/kv_rows.cuh",
        (
            ("index.page * stride.batch", "index.page * static_cast<int>(stride.batch)"),
            ("if (kv >= kv_end) return {0, 0};\n", ""),  # entries behind a table's end are absurd
        ),
        "attn_paged_decode_split_kv.fp16.d96",
        "one_short",
        ("undefined: ", " * 1073741824 does not fit int"),
        "index.page * static_cast<int>(stride.batch)",
    ),
    "a mask is shifted by all of its bits": Planted(
        "undefined",
        "prefill/split_q.cuh",
        (("<< (lane_id() / LANES * LANES)", "<< (lane_id() / LANES * LANES + LANES)"),),
        "attn_prefill_split_q.fp16.d32.p1",
        "whole_pages",
        ("undefined: shift of unsigned int by 32",),
        "<< (lane_id() / LANES * LANES + LANES)",
    ),
}
PLANTED_IN_CHECK = {  # one of each check: every one is a build of its own
    "weights are read before the warp has written them",
    "a tile ends one key late",
    "the offset of a page is formed in 32 bits",
}
assert {PLANTED[name].sanitizer for name in PLANTED_IN_CHECK} == set(SANITIZERS)


def plant(root: Path, planted: Planted) -> str:
    """A copy of the project with the edits; `FILE:LINE` of the line that the report must name, or `FILE:`."""
    shutil.copytree(ROOT / "csrc", root / "csrc")
    shutil.copy(ROOT / "flags.yaml", root)
    path = root / "csrc" / planted.file
    source = path.read_text(encoding="utf-8")
    for old, new in planted.edits:
        assert source.count(old) == 1, f"{planted.file} has changed: plant the fault anew"
        source = source.replace(old, new)
    path.write_text(source, encoding="utf-8")
    lines = [number for number, line in enumerate(source.splitlines(), 1) if planted.line and planted.line in line]
    return f"csrc/{planted.file}:{lines[0]}" if lines else ""


@pytest.mark.parametrize(
    "name", [name if name in PLANTED_IN_CHECK else pytest.param(name, marks=pytest.mark.full) for name in PLANTED]
)
def test_a_planted_fault_is_found_in_the_kernels_terms(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planted = PLANTED[name]
    where = plant(tmp_path, planted)
    words = ["--project", str(tmp_path), "test", planted.variant, "-k", planted.cases]
    assert main([*words, "--sanitize", planted.sanitizer, "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    messages = [failure["message"] for each in report["variants"] for failure in each["failures"]]
    assert messages
    kernel = f"{planted.variant.split('.')[0]}_kernel<" if "attn_combine_kernel" not in planted.words else ""
    for message in messages:
        for word in (kernel, ": block (", "): thread ", where, *planted.words):
            assert word in message, message
