"""The register report for programs and pull requests: JSON, CSV and Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sparkctl.render.regs import build_line, describe_step
from sparkctl.render.regs_columns import function_name, known, percent_text, tests_cell, waves_of
from sparkctl.resources import ResourceUsage
from sparkctl.workflows.regs_model import KernelReport, RegsReport
from sparkctl.workflows.tested import LastTest

MARKDOWN_HEADERS = (
    "variant",
    "arch",
    "threads",
    "registers",
    "spill stores B",
    "spill loads B",
    "stack B",
    "static smem B",
    "dynamic smem B",
    "barriers",
    "blocks/SM",
    "warps/SM",
    "occupancy %",
    "limiters",
    "tests",
)
CSV_NAMES = (
    "variant",
    "arch",
    "block_threads",
    "registers",
    "spill_store_bytes",
    "spill_load_bytes",
    "stack_bytes",
    "static_smem_bytes",
    "dynamic_smem_bytes",
    "barriers",
)


def regs_json(report: RegsReport) -> dict[str, Any]:
    """Everything the report knows; sizes in bytes, registers per thread, null for unknown or not limited."""
    return {
        "command": "regs",
        "compiler": report.compiler,
        "profile": report.profile,
        "sets": dict(report.sets),
        "archs": [str(arch) for arch in report.archs],
        "kernels": [kernel_json(row, report) for row in report.rows],
        "left_out": [
            {"variant": item.variant.name, "arch": item.arch.name, "reason": item.reason} for item in report.left_out
        ],
        "grid": None if report.grid is None else asdict(report.grid),
        "notes": list(report.notes),
    }


def regs_csv(report: RegsReport) -> str:
    """One line per kernel and arch under JSON's names; limiters joined by `+`."""
    out = io.StringIO()
    rows = [flat_row(row, report) for row in report.rows]
    writer = csv.DictWriter(out, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def regs_markdown(report: RegsReport) -> str:
    """A table for a pull request: spills in bold, what it was built with below."""
    lines = [
        f"| {' | '.join(MARKDOWN_HEADERS)} |",
        f"| --- | --- | {' | '.join(['---:'] * (len(MARKDOWN_HEADERS) - 4))} | --- | --- |",
    ]
    for row in report.rows:
        occupied = row.occupancy
        cells = [row.name, row.arch.name, known(row.block_threads), str(row.registers)]
        cells += [_bold(row.usage.spill_store_bytes), _bold(row.usage.spill_load_bytes), str(row.usage.stack_bytes)]
        cells += [known(row.static_smem_bytes), str(row.dynamic_smem_bytes), known(row.usage.barriers)]
        if occupied is None:
            cells += ["–"] * 4
        else:
            cells += [str(occupied.blocks_per_sm), str(occupied.warps_per_sm), percent_text(occupied.percent)]
            cells += [", ".join(name.replace("_", " ") for name in occupied.limiters)]
        cells += [f"**{tests_cell(row)}**" if tests_cell(row).startswith("!") else tests_cell(row)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", *report.notes, build_line(report)]) + "\n"


def kernel_json(row: KernelReport, report: RegsReport) -> dict[str, Any]:
    usage, occupied = row.usage, row.occupancy
    return {
        "name": row.name,
        "variant": row.variant.name if row.variant else None,
        "kernel": row.kernel,
        "axes": dict(row.variant.values) if row.variant else None,
        "arch": row.arch.name,
        "block_threads": row.block_threads,
        "function": usage.function,
        "demangled": usage.demangled,
        "short_name": function_name(row),
        "registers": row.registers,
        "register_cap": usage.register_cap,
        "spill_store_bytes": usage.spill_store_bytes,
        "spill_load_bytes": usage.spill_load_bytes,
        "stack_bytes": usage.stack_bytes,
        "cumulative_stack_bytes": usage.cumulative_stack_bytes,
        "static_smem_bytes": row.static_smem_bytes,
        "dynamic_smem_bytes": row.dynamic_smem_bytes,
        "barriers": usage.barriers,
        "constant_bytes": usage.constant_bytes,
        "occupancy": None
        if occupied is None
        else {
            "blocks_per_sm": occupied.blocks_per_sm,
            "warps_per_sm": occupied.warps_per_sm,
            "percent": round(occupied.percent, 2),
            "limiters": list(occupied.limiters),
            "blocks_by_limit": dict(occupied.limits.items()),
        },
        "next_step": None
        if row.next_step is None
        else {
            **asdict(row.next_step),
            "percent": round(row.next_step.percent, 2),
            "text": describe_step(row.next_step),
        },
        "waves": waves_of(row, report),
        "tests": None if row.tested is None else _test_json(row.tested),
        "calls": [_call_json(call) for call in row.calls],
        "log": str(row.log),
    }


def _test_json(tested: LastTest) -> dict[str, Any]:
    verdict = asdict(tested.verdict)
    names = ("backend", "device", "arch", "cases", "failed", "whole", "commit", "dirty", "time")
    return {"of_this_code": tested.current, **{name: verdict[name] for name in names}}


def _call_json(call: ResourceUsage) -> dict[str, Any]:
    return {
        "function": call.function,
        "demangled": call.demangled,
        "stack_bytes": call.stack_bytes,
        "spill_store_bytes": call.spill_store_bytes,
        "spill_load_bytes": call.spill_load_bytes,
    }


def flat_row(row: KernelReport, report: RegsReport) -> Mapping[str, object]:
    data, occupied = kernel_json(row, report), row.occupancy
    return {
        **{name: data[name] for name in CSV_NAMES},
        "variant": row.name,
        "blocks_per_sm": occupied.blocks_per_sm if occupied else None,
        "warps_per_sm": occupied.warps_per_sm if occupied else None,
        "occupancy_percent": data["occupancy"]["percent"] if occupied else None,
        "limiters": "+".join(occupied.limiters) if occupied else None,
        "next_blocks_per_sm": row.next_step.blocks_per_sm if row.next_step else None,
        "registers_fewer": row.next_step.registers_fewer if row.next_step else None,
        "smem_bytes_fewer": row.next_step.smem_bytes_fewer if row.next_step else None,
        "function": row.usage.function,
        "tests": None if row.tested is None else tests_cell(row).removeprefix("!"),
    }


def _bold(spill: int | None) -> str:
    return f"**{spill}**" if spill else known(spill)
