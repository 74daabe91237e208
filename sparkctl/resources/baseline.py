"""Pinned reports of one arch as a file: one line a kernel under each compiler, so that a diff reads well. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkctl.errors import UsageError
from sparkctl.resources.change import FIELDS, Numbers

VERSION = 1
ALWAYS_KNOWN = ("registers", "stack_bytes", "dynamic_smem_bytes")
Pins = Mapping[str, Numbers]  # variant -> what it uses


@dataclass(frozen=True, slots=True)
class Baseline:
    """Of one arch: compiler -> its pins."""

    arch: str
    compilers: Mapping[str, Pins] = field(default_factory=dict)

    def with_pins(self, compiler: str, pins: Pins) -> Baseline:
        """The same with this compiler's pins replaced."""
        return Baseline(self.arch, {**self.compilers, compiler: pins})


def encode_baseline(baseline: Baseline) -> str:
    """JSON in a fixed order."""
    lines = ["{", f' "schema_version": {VERSION},', f' "arch": {json.dumps(baseline.arch)},', ' "compilers": {']
    blocks = []
    for compiler, pins in sorted(baseline.compilers.items()):
        rows = [f"   {json.dumps(name)}: {_encode(numbers)}" for name, numbers in sorted(pins.items())]
        blocks.append(f"  {json.dumps(compiler)}: {{\n" + ",\n".join(rows) + "\n  }")
    return "\n".join([*lines, ",\n".join(blocks), " }", "}"]) + "\n"


def decode_baseline(text: str, file: str) -> Baseline:
    """UsageError names the file for a text that no `--update` wrote."""
    hint = "git restore it, or remove it and pin anew with sparkctl regs --update"
    try:
        data: dict[str, Any] = json.loads(text)
        if data["schema_version"] != VERSION:
            raise UsageError(
                f"{file}: schema_version {data['schema_version']}, this sparkctl reads {VERSION}", hint=hint
            )
        compilers = {
            str(compiler): {str(name): _decode(row) for name, row in rows.items()}
            for compiler, rows in data["compilers"].items()
        }
        return Baseline(str(data["arch"]), compilers)
    except json.JSONDecodeError as error:
        raise UsageError(f"{file}:{error.lineno}: not JSON: {error.msg}", hint=hint) from error
    except KeyError as error:
        raise UsageError(f"{file}: not a file of pinned registers: it has no {error}", hint=hint) from error
    except ValueError as error:
        raise UsageError(f"{file}: not a file of pinned registers: {error}", hint=hint) from error
    except (TypeError, AttributeError) as error:
        raise UsageError(f"{file}: not a file of pinned registers: a value is of another kind", hint=hint) from error


def _encode(numbers: Numbers) -> str:
    return json.dumps(
        {
            "registers": numbers.registers,
            "spills": [numbers.spill_store_bytes, numbers.spill_load_bytes],
            "stack": numbers.stack_bytes,
            "smem": [numbers.static_smem_bytes, numbers.dynamic_smem_bytes],
            "barriers": numbers.barriers,
            "occupancy": [numbers.blocks_per_sm, numbers.warps_per_sm],
        }
    )


def _decode(row: Mapping[str, Any]) -> Numbers:
    stores, loads = row["spills"]
    static, dynamic = row["smem"]
    blocks, warps = row["occupancy"]
    numbers = Numbers(row["registers"], stores, loads, row["stack"], static, dynamic, row["barriers"], blocks, warps)
    for name in FIELDS:
        value = getattr(numbers, name)
        known = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        if not known and (value is not None or name in ALWAYS_KNOWN):
            raise ValueError(f"{name} is {value!r}")
    return numbers
