"""The cases must be able to fail: each planted error is a fault that some attention kernel shipped with.

A copy of the project gets one edit, is built for the emulator, and `sparkctl test` must find it.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from sparkctl.registry import load_registry
from sparkctl.testing.results import VariantResult
from sparkctl.workflows.suite import SuiteOptions
from sparkctl.workflows.test import plan_suite, run_suite

ROOT = Path(__file__).resolve().parents[2]
DECODE = "attn_decode_split_kv_mma.bf16.d64"
DECODE_16_ROWS = "attn_decode_split_kv_mma.bf16.d64.reload.r16"
SCALAR = "attn_decode_split_kv.bf16.d64"
PAGED = "attn_paged_decode_split_kv_mma.bf16.d64"
COMBINE = "attn_combine.bf16.d64"
MERGE = "attn_merge_states.bf16.d64"
PREFILL = "attn_prefill_split_q_mma.bf16.d64"
PREFILL_SCALAR = "attn_prefill_split_q.bf16.d64"


@dataclass(frozen=True)
class Planted:
    """One edit of one file, and the words of case ids that must be among the failures."""

    file: str
    old: str
    new: str
    variant: str
    found_by: str


PLANTED = {
    "the causal mask is aligned top-left": Planted(
        "attention/geometry.h",
        "const int own = kv_len - qo_len + position;",
        "const int own = position;",
        DECODE,
        "rows_without_keys",
    ),
    "an offset is cut to 32 bits": Planted(
        "attention/kv_rows.cuh",
        "batch_ * stride.batch + head * stride.head",
        "static_cast<int>(batch_ * stride.batch + head * stride.head)",
        DECODE,
        "huge_batch",
    ),
    "a page's offset is cut to 32 bits": Planted(
        "attention/kv_rows.cuh",
        "index.page * stride.batch",
        "static_cast<int>(index.page * stride.batch)",
        PAGED,
        "huge_batch",
    ),
    "keys are taken from the next slot of their page": Planted(
        "attention/kv_rows.cuh",
        "kv - entry * page_size_",
        "(kv + 1) % page_size_",
        PAGED,
        "one_short",  # in a page that is seen whole the order of keys changes nothing
    ),
    "V is read with the strides of K": Planted(
        "attention/split_kv_mma.cuh", "p.v_stride", "p.k_stride", DECODE, "mixed"
    ),
    "the CUDA-core kernel reads V with the strides of K": Planted(
        "attention/split_kv.cuh", "p.v_stride", "p.k_stride", SCALAR, "mixed"
    ),
    "the lengths are ignored": Planted(
        "attention/geometry.h",
        "if (p.kv_lens == nullptr) return p.kv_len;",
        "return p.kv_len;",
        DECODE,
        "poisoned_tail",
    ),
    "splits overlap by one key": Planted(
        "attention/geometry.h",
        "split) * tiles_per_split * block_kv",
        "split) * tiles_per_split * block_kv - (split ? 1 : 0)",
        DECODE,
        "tile_counts",
    ),
    "lse is left in the log2 domain": Planted("attention/softmax.cuh", ") * kLn2", ")", COMBINE, "model_shape"),
    "splits are merged without a common maximum": Planted(
        "combine/merge.cuh",
        ": rescale_factor(part.max, max);",
        ": 1.0f;",
        COMBINE,
        "far_apart",
    ),
    "an empty split's accumulator is read": Planted(
        "combine/merge.cuh", "part.sum == 0.0f ? -1.0f : ", "", COMBINE, "empty_first"
    ),
    "the out of a state without keys is read": Planted(
        "combine/merge_states.cuh", "lse == kNegInf ? 0.0f : 1.0f", "1.0f", MERGE, "empty_first"
    ),
    "a state's lse is taken for a log2": Planted("combine/merge_states.cuh", "lse * kLog2E", "lse", MERGE, "live"),
    "every state's out is read from the first": Planted(
        "combine/merge_states.cuh", "out_gmem + state * out_stride", "out_gmem", MERGE, "live"
    ),
    "a window shows one key too few": Planted(
        "attention/geometry.h", "own - p.window;", "own - p.window + 1;", DECODE, "window_of_one"
    ),
    "keys before a window are read, if not counted": Planted(
        "attention/geometry.h", "kv_len - qo_len - p.window;", "0;", DECODE, "window_with_long_cache"
    ),
    "the first query's window holds for all": Planted(
        "attention/geometry.h", "own - p.window;", "kv_len - qo_len - p.window;", SCALAR, "window_smaller_than_queries"
    ),
    "every head has the first head's mask": Planted(
        "attention/scores.cuh", " + head * p.mask_stride.head", "", SCALAR, "mask_first_tile_hidden"
    ),
    "every query has the first query's mask": Planted(
        "attention/scores.cuh", " + position * p.mask_stride.row", "", PAGED, "mask_over_page_tails"
    ),
    "a thread's second row has the mask of its first": Planted(
        "attention/split_kv_mma.cuh",
        "mask_smem[lane_id() / 4 + 8 * half]",
        "mask_smem[lane_id() / 4]",
        DECODE_16_ROWS,
        "rank4_heads",
    ),
    "the soft-cap forgets the scale": Planted(
        "bindings/attention.h",
        "LOG2_E * options.scale / options.softcap",
        "LOG2_E / options.softcap",
        DECODE,
        "softcap_at_half",
    ),
    "the soft-cap is NaN where its exponential is infinite": Planted(
        "attention/scores.cuh",
        "return p.softcap * (1.0f - 2.0f / (1.0f + exp2_fast(raw * p.softcap_scale)));",
        "const float e = exp2_fast(raw * p.softcap_scale);\n  return p.softcap * ((e - 1.0f) / (e + 1.0f));",
        DECODE,
        "softcap_and_large_logits",
    ),
    "a sink is taken for a logarithm to base 2": Planted(
        "attention/softmax.cuh", "= sink * kLog2E", "= sink", COMBINE, "sinks_once"
    ),
    "a sink counts once a split": Planted(
        "combine/merge.cuh",
        "if (sink != kNegInf) merged.sum +=",
        "for (int s = 0; sink != kNegInf && s < count; ++s) merged.sum +=",
        COMBINE,
        "sinks_once",
    ),
    "a sink does not raise the maximum of a merge": Planted(
        "combine/merge.cuh",
        "if (sink != kNegInf) merged.max = fmaxf(merged.max, sink_to_log2(sink));",
        "",
        COMBINE,
        "sinks",
    ),
    "a sink leaves the maximum where it was": Planted("attention/softmax.cuh", "row.max = max;", "", PREFILL, "sinks"),
    "the causal mask of prefill is aligned top-left": Planted(
        "attention/geometry.h",
        "const int own = kv_len - qo_len + position;",
        "const int own = position < kv_len ? position : kv_len - 1;",  # past the keys there is no memory
        PREFILL,
        "fewer_queries_than_keys",
    ),
    "a window of prefill is one key short": Planted(
        "prefill/query_tile.cuh",
        "const KvRange first = visible_to(p, first_row / p.group, seq.qo_len, seq.kv_len);",
        "KvRange first = visible_to(p, first_row / p.group, seq.qo_len, seq.kv_len); first.begin += p.window > 0;",
        PREFILL,
        "window_edge",
    ),
    "the mask's stride along heads is ignored": Planted(
        "attention/scores.cuh", "head * p.mask_stride.head", "head * 0", PREFILL, "mask_kinds"
    ),
    "the start of a packed sequence is cut to 32 bits": Planted(
        "attention/kv_rows.cuh", "first_ * stride.len", "static_cast<int>(first_ * stride.len)", PREFILL, "huge_len"
    ),
    "a packed sequence reads its neighbour's queries": Planted(
        "prefill/query_tile.cuh", "seq.first + row.position", "row.position", PREFILL_SCALAR, "ragged_causal"
    ),
    "a tile that some rows see in part is not masked": Planted(
        "prefill/split_q_mma.cuh",
        "kv + BLOCK_KV <= view.all.end",
        "kv < view.all.end",
        PREFILL,
        "causal_across_tiles",
    ),
    "the shuffles of a row name the whole warp": Planted(
        "prefill/split_q.cuh",
        "const unsigned lanes = ((1u << LANES) - 1) << (lane_id() / LANES * LANES);",
        "const unsigned lanes = kFullMask;",
        PREFILL_SCALAR,
        "causal",
    ),
    "a sink's new maximum does not reach the accumulator": Planted(
        "prefill/query_tile.cuh", "factor = rescale_factor(max, row.max);", "factor = 1.0f;", PREFILL, "sinks"
    ),
}


def plant(root: Path, planted: Planted) -> Path:
    shutil.copytree(ROOT / "csrc", root / "csrc")
    shutil.copy(ROOT / "flags.yaml", root)
    path = root / "csrc" / planted.file
    source = path.read_text(encoding="utf-8")
    assert planted.old in source, f"{planted.file} has changed: plant the error anew"
    path.write_text(source.replace(planted.old, planted.new), encoding="utf-8")
    return root


class Silent:
    """A watcher that tells nobody."""

    def start(self, plan: object) -> None: ...

    def case(self, selection: object, case: object, outcome: object) -> None: ...

    def stop(self) -> None: ...


def run_tests(root: Path, variant: str) -> VariantResult:
    registry = load_registry(root / "flags.yaml")
    options = SuiteOptions(patterns=(variant,), backend="emulator")
    report = run_suite(registry, plan_suite(registry, options), options, watcher=Silent())
    assert not report.passed
    return report.results[0]


# A few in `make check`, all of them in `make full`: every one is a build and a run of its own.
IN_CHECK = frozenset(
    (
        "a page's offset is cut to 32 bits",
        "V is read with the strides of K",
        "every head has the first head's mask",
        "the shuffles of a row name the whole warp",
    )
)
assert not IN_CHECK - PLANTED.keys()


@pytest.mark.parametrize("name", PLANTED)
def test_what_an_error_replaces_is_there(name: str) -> None:
    planted = PLANTED[name]
    assert planted.old in (ROOT / "csrc" / planted.file).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name", [name if name in IN_CHECK else pytest.param(name, marks=pytest.mark.full) for name in PLANTED]
)
def test_a_planted_error_is_found(name: str, tmp_path: Path) -> None:
    planted = PLANTED[name]
    result = run_tests(plant(tmp_path, planted), planted.variant)
    assert [f.case_id for f in result.failures if planted.found_by in f.case_id]
