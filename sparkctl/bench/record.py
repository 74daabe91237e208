"""Runs as JSON: the same object on stdout and in benchmarks/results/<gpu>/<name>.json."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sparkctl.bench.ab import RATIO_CONFIDENCE, Ab, Comparison, geometric_mean, group_comparisons
from sparkctl.bench.axes import DecodeCase
from sparkctl.bench.gpus import match_gpu
from sparkctl.bench.repeat import repeat_command
from sparkctl.bench.results import GemmCeiling, PeerResult, Row, Run, Series
from sparkctl.errors import UsageError

SCHEMA_VERSION = 2  # docs/bench.schema.json; 2: every row has its repeat
RESULTS = Path("benchmarks/results")


def run_record(run: Run) -> dict[str, Any]:
    """JSON-ready, without `schema_version`. Times in µs, shares as fractions of 1."""
    environment = asdict(run.environment)
    environment["flags"] = dict(run.environment.flags)
    clocks = run.clocks_mhz
    environment["sm_clock_mhz"] = None if clocks is None else {"low": clocks[0], "high": clocks[1]}
    spec = match_gpu(run.environment.gpu)
    environment["peak_tbps"] = None if spec is None else spec.bandwidth_tbps
    environment["peak_source"] = None if spec is None else spec.source
    gemm = run.environment.gemm
    environment["gemm"] = None if gemm is None else _gemm_record(gemm)
    return {
        "kind": "bench",
        "started": run.started,
        "command": run.command,
        "environment": environment,
        "rows": [_row_record(row, run) for row in run.rows],
        **({} if run.ab is None else {"ab": _ab_record(run.ab, run.comparisons)}),
        "sampling": None if run.sampling is None else asdict(run.sampling),
        "planned_rows": run.planned,
        "interrupted": run.interrupted,
        "lost": run.lost,
        "failures": [
            {"case": case_record(one.case), "variant": one.variant or None, "reason": one.reason}
            for one in run.failures
        ],
    }


def _gemm_record(gemm: GemmCeiling) -> dict[str, Any]:
    return {"size": gemm.size, "dtype": gemm.dtype, "tflops": gemm.tflops, "time": _series_record(gemm.series)}


def _ab_record(ab: Ab, comparisons: Sequence[Comparison]) -> dict[str, Any]:
    means = [
        {
            "kernel": group[0].other.kernel,
            "arm": group[0].other.arm,
            "against": group[0].base.arm,
            "geometric_mean": geometric_mean([one.ratio for one in group]),
            "cases": len(group),
        }
        for group in group_comparisons(comparisons)
    ]
    return {
        "name": ab.name,
        "values": list(ab.values),
        "confidence": RATIO_CONFIDENCE,
        "means": means,
        "comparisons": [_comparison_record(one) for one in comparisons],
    }


def _comparison_record(one: Comparison) -> dict[str, Any]:
    interval = one.interval
    return {
        "case": case_record(one.other.case),
        "kernel": one.other.kernel,
        "arm": one.other.arm,
        "against": one.base.arm,
        "ratio": one.ratio,
        "low": interval.low,
        "high": interval.high,
        "rounds": len(one.ratios),
        "verdict": one.verdict,
        "bits": {**asdict(one.bits), "equal": one.bits.equal},
    }


def case_record(case: DecodeCase) -> dict[str, Any]:
    """The axes of a case, the heads as two numbers."""
    axes = asdict(case)
    if case.kv_lens is None:  # files of other cases stay as they were
        del axes["kv_lens"], axes["spread"]
    if not case.prefill:
        del axes["prefill"]
    return {"label": case.label, **axes.pop("heads"), **axes}


def _row_record(row: Row, run: Run) -> dict[str, Any]:
    return {
        "case": case_record(row.case),
        "kernel": row.kernel,
        "variant": row.variant,
        **({"arm": row.arm} if row.arm else {}),
        "num_splits": row.num_splits,
        "repeat": repeat_command(row, run),
        "bytes": row.traffic.bytes,
        "flops": row.traffic.flops,
        "slots": row.slots,
        "time": _series_record(row.series),
        "eager": _series_record(row.eager),
        "tbps": row.tbps,
        "ceiling": {
            "kernel": row.ceiling.kernel,
            "bytes": row.ceiling.bytes,
            "tbps": row.ceiling.tbps,
            "time": _series_record(row.ceiling.series),
        },
        "ceiling_share": row.ceiling_share,
        **({} if row.case.kv_lens is None else {"over_equal": run.over_equal(row)}),
        "peak_share": row.peak_share(match_gpu(run.environment.gpu)),
        "tflops": row.tflops,
        "gemm_share": row.gemm_share(run.environment.gemm),
        "peers": [_peer_record(row, peer) for peer in row.peers],
        "error": row.error,
    }


def _peer_record(row: Row, peer: PeerResult) -> dict[str, Any]:
    return {
        "name": peer.name,
        "reason": peer.reason,
        "speedup": row.speedup(peer),
        "time": None if peer.series is None else _series_record(peer.series),
    }


def _series_record(series: Series) -> dict[str, Any]:
    interval = series.interval_us
    return {
        "median_us": series.median_us,
        "low_us": interval.low,
        "high_us": interval.high,
        "noise": series.noise,
        "stop": series.stop,
        "calls": series.calls,
        "throttled": series.throttled,
        "samples_us": [sample.time_us for sample in series.samples],
        "sm_clocks_mhz": [sample.sm_clock_mhz for sample in series.samples],
        "throttle": {str(i): list(sample.throttle) for i, sample in enumerate(series.samples) if sample.throttle},
    }


def result_path(name: str, gpu: str, root: Path) -> Path:
    """`decode` on an H200 -> benchmarks/results/h200/decode.json; a name that ends in .json is a path as it stands."""
    if name.endswith(".json"):
        return Path(name)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise UsageError(f"--save {name}: not a name", hint="letters, digits, - and _; or a path that ends in .json")
    spec = match_gpu(gpu)
    folder = re.sub(r"[^a-z0-9]+", "-", (spec.name if spec else gpu).lower()).strip("-")
    return root / RESULTS / folder / f"{name}.json"


def save_run(run: Run, name: str, root: Path) -> Path:
    """Written whole or not at all; the path."""
    record = {"schema_version": SCHEMA_VERSION, **run_record(run)}
    return save_record(record, result_path(name, run.environment.gpu, root))


def save_record(record: Mapping[str, Any], target: Path) -> Path:
    """Written whole or not at all, `schema_version` first; the path."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.tmp")
    text = json.dumps({"schema_version": 1, **record}, indent=1, ensure_ascii=False)
    draft.write_text(text + "\n", encoding="utf-8")
    draft.replace(target)
    return target
