"""The proof of a change as JSON: what --json prints and --save keeps."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sparkctl.bench.ab import Comparison
from sparkctl.bench.record import run_record
from sparkctl.render.accuracy import accuracy_json
from sparkctl.render.proof import decode_ms
from sparkctl.workflows.proof import Proof
from sparkctl.workflows.proof_gate import arm_tests, register_changes, rows_of, tokens_per_second


def proof_record(proof: Proof) -> dict[str, Any]:
    """What --json prints and --save keeps: every part, the run with every sample."""
    request, counts, baseline = proof.request, arm_tests(proof.plan, proof.tests), proof.baseline
    return {
        "kind": "proof",
        "command": request.command,
        "gain": proof.gain.proved,
        "reasons": list(proof.gain.reasons),
        "commit": proof.stamp.commit,
        "dirty": proof.stamp.dirty,
        "baseline": None if baseline is None else {"name": baseline.name, "commit": baseline.commit},
        "rate": {
            "what": "attention only: batch / (layers × time of one attention call)",
            "layers": request.layers,
            "tokens": request.tokens,
        },
        "cases": [_comparison_record(proof, one) for one in proof.run.comparisons],
        "tests": {
            "backend": proof.tests.plan.backend,
            "device": proof.tests.plan.device,
            "grid": proof.tests.plan.grid,
            "arms": [
                {
                    "label": arm.label,
                    "variants": list(arm.variants),
                    "cases": tests.planned,
                    "run": tests.run,
                    "passed": tests.passed,
                }
                for arm, tests in zip(proof.plan.tested, counts, strict=True)
            ],
        },
        "registers": _registers_record(proof),
        "register_changes": [
            {"name": change.name, "verdict": change.verdict, "differences": [asdict(d) for d in change.differences]}
            for change in register_changes(proof.plan, proof.registers)
        ],
        "accuracy": accuracy_json(proof.accuracy),
        "run": run_record(proof.run),
    }


def _comparison_record(proof: Proof, one: Comparison) -> dict[str, Any]:
    case, times = one.other.case, (one.base.series.median_us, one.other.series.median_us)
    rates = [tokens_per_second(case.batch, proof.request.layers, time) for time in times]
    return {
        "kernel": one.other.kernel,
        "batch": case.batch,
        "kv_len": case.kv_len,
        "heads": str(case.heads),
        "before_us": times[0],
        "after_us": times[1],
        "ratio": one.ratio,
        "ratio_low": one.interval.low,
        "ratio_high": one.interval.high,
        "verdict": one.verdict,
        "before_tokens_per_s": rates[0],
        "after_tokens_per_s": rates[1],
        "before_decode_ms": decode_ms(proof, times[0]),
        "after_decode_ms": decode_ms(proof, times[1]),
        "bits_equal": one.bits.equal,
    }


def _registers_record(proof: Proof) -> list[dict[str, Any]]:
    return [
        {
            "arm": arm.label,
            "variant": row.name,
            "arch": row.arch.name,
            "registers": row.registers,
            "spill_store_bytes": row.usage.spill_store_bytes,
            "spill_load_bytes": row.usage.spill_load_bytes,
            "static_smem_bytes": row.static_smem_bytes,
            "dynamic_smem_bytes": row.dynamic_smem_bytes,
            "blocks_per_sm": row.occupancy.blocks_per_sm if row.occupancy else None,
            "warps_per_sm": row.occupancy.warps_per_sm if row.occupancy else None,
            "occupancy_percent": row.occupancy.percent if row.occupancy else None,
            "limiters": list(row.occupancy.limiters) if row.occupancy else None,
        }
        for arm, registers in zip(proof.plan.arms, proof.registers, strict=True)
        for name in arm.variants
        for row in rows_of(registers, name)
    ]
