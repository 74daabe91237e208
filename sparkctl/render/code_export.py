"""SASS and PTX for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkctl.render.code import function_name
from sparkctl.resources.code import Function, Instruction, Mix, Place
from sparkctl.workflows.code import CodeReport, CodeRow


def code_json(report: CodeReport, *, listing: bool = False, by_line: bool = False) -> dict[str, Any]:
    """Everything the screens show; `listing` adds the instructions, `by_line` the counts of source lines."""
    return {
        "command": report.form,
        "compiler": report.compiler,
        "profile": report.profile,
        "sets": dict(report.sets),
        "archs": [arch.name for arch in report.archs],
        "kernels": [row_json(row, listing=listing, by_line=by_line) for row in report.rows],
        "left_out": [
            {"variant": item.variant.name, "arch": item.arch.name, "reason": item.reason} for item in report.left_out
        ],
    }


def row_json(row: CodeRow, *, listing: bool = False, by_line: bool = False) -> dict[str, Any]:
    """One kernel of one variant on one arch."""
    data = {
        "variant": row.variant.name,
        "kernel": row.variant.kernel.name,
        "arch": row.arch.name,
        "function": row.function.name,
        "demangled": row.demangled,
        "short_name": function_name(row),
        "registers": row.registers.count,
        "spill_store_bytes": row.registers.spill_store_bytes,
        "spill_load_bytes": row.registers.spill_load_bytes,
        "calls": list(row.function.callees),
        **mix_json(row.mix),
        "loops": _loops_json(row.function),
        "file": str(row.file),
    }
    if by_line:
        data["lines"] = [
            {
                **(_place_json(line.place) if line.place else {"file": None, "line": None}),
                "instructions": line.count,
                "instructions_in_loops": line.looped,
                "by_group": dict(line.groups),
            }
            for line in row.lines
        ]
    if listing:
        data["labels"] = dict(row.function.labels)
        data["listing"] = [_instruction_json(instruction) for instruction in row.function.instructions]
    return data


def mix_json(mix: Mix) -> dict[str, Any]:
    """Null for what is in loops where loops are not known."""
    looped: Mapping[tuple[str, str], int] | None = mix.looped
    return {
        "instructions": mix.total,
        "instructions_in_loops": mix.total_looped,
        "mix": [
            {
                "group": group,
                "name": name,
                "count": number,
                "in_loops": None if looped is None else looped.get((group, name), 0),
            }
            for (group, name), number in mix.all.items()
        ],
    }


def _loops_json(function: Function) -> list[dict[str, Any]] | None:
    if function.loops is None:
        return None
    return [
        {
            "first": loop.head,
            "address": function.instructions[loop.head].address,
            "instructions": len(loop.body),
            "depth": loop.depth,
        }
        for loop in function.loops
    ]


def _place_json(place: Place) -> dict[str, Any]:
    return {"file": place.file, "line": place.line}


def _instruction_json(instruction: Instruction) -> dict[str, Any]:
    return {
        "address": instruction.address,
        "guard": instruction.guard or None,
        "opcode": instruction.opcode,
        "operands": instruction.operands,
        "places": [_place_json(place) for place in instruction.places],
    }
