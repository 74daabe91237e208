"""`sparkctl list` as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sparkctl.registry import Axis, Kernel
from sparkctl.render.console import indented, plain_table
from sparkctl.workflows.inventory import Built, Inventory, KernelEntry

if TYPE_CHECKING:
    from rich.console import RenderableType


def render_inventory(inventory: Inventory, *, with_variants: bool, with_cases: bool = False) -> RenderableType:
    """A block per kernel; with_variants adds a row for each variant, with_cases one for each test case."""
    from rich.console import Group

    blocks: list[RenderableType] = []
    for entry in inventory.entries:
        if blocks:
            blocks.append("")
        blocks += _kernel_block(entry)
        if with_variants:
            blocks.append(_variant_rows(entry))
        if with_cases and entry.cases:
            blocks.append(_case_rows(entry))
    return Group(*blocks)


def inventory_json(inventory: Inventory, *, with_cases: bool = False) -> dict[str, Any]:
    return {
        "kernels": [
            _entry_json(entry) | ({"case_ids": _case_ids_json(entry)} if with_cases else {})
            for entry in inventory.entries
        ]
    }


def _kernel_block(entry: KernelEntry) -> list[RenderableType]:
    from rich.text import Text

    kernel = entry.kernel
    title = Text()
    title.append(kernel.name, style="bold")
    title.append(f"  {_count(len(entry.variants), 'variant')}, {kernel.family}, {kernel.min_arch.name} and later")
    table = plain_table("", "")
    table.show_header = False
    for label, lines in (
        ("axes", [_axis_text(axis) for axis in kernel.axes]),
        ("accepts", [", ".join(f"{name} {accepted}" for name, accepted in kernel.accepts.items())]),
        ("source", [kernel.source]),
        ("cases", [", ".join(f"{grid} {len(ids)}" for grid, ids in entry.cases.items()) or "none"]),
        ("built", [_built_text(built) for built in entry.built] or ["no"]),
    ):
        for index, line in enumerate(line for line in lines if line):
            table.add_row(label if index == 0 else "", line)
    return [title, indented(Text(kernel.doc)), indented(table)]


def _axis_text(axis: Axis) -> str:
    """`stages 1, 2, 4 (default 2)`."""
    default = "" if axis.default is None else f" (default {axis.default})"
    return f"{axis.name} {', '.join(str(value) for value in axis.values)}{default}"


def _built_text(built: Built) -> str:
    flags = "".join(f" {name}={value}" for name, value in built.flags.items())
    return f"{built.backend} {built.arch} {built.profile}{flags}: {len(built.variants)} of {built.possible}"


def _variant_rows(entry: KernelEntry) -> RenderableType:
    table = plain_table("variant", "threads", "dynamic smem", "built", right=("threads", "dynamic smem"))
    for variant in entry.variants:
        built = [f"{one.backend} {one.arch} {one.profile}" for one in entry.built if variant.name in one.variants]
        smem = f"{variant.dynamic_smem_bytes} B"
        threads = "–" if variant.block_threads is None else str(variant.block_threads)
        table.add_row(variant.name, threads, smem, ", ".join(_unique(built)) or "-")
    return indented(table, above=1)


def _case_rows(entry: KernelEntry) -> RenderableType:
    table = plain_table("set", "case")
    for name, grids in entry.case_grids.items():
        table.add_row("quick" if "quick" in grids else ", ".join(grids), name)  # the larger sets hold the quick one
    return indented(table, above=1)


def _case_ids_json(entry: KernelEntry) -> list[dict[str, Any]]:
    return [{"id": name, "grids": grids} for name, grids in entry.case_grids.items()]


def _entry_json(entry: KernelEntry) -> dict[str, Any]:
    kernel = entry.kernel
    return {
        "name": kernel.name,
        "family": kernel.family,
        "doc": kernel.doc,
        "source": kernel.source,
        "min_arch": kernel.min_arch.name,
        "axes": [_axis_json(axis) for axis in kernel.axes],
        "accepts": _accepts_json(kernel),
        "cases": {grid: len(ids) for grid, ids in entry.cases.items()},
        "variants": [
            {
                "name": variant.name,
                "values": dict(variant.values),
                "block_threads": variant.block_threads,
                "dynamic_smem_bytes": variant.dynamic_smem_bytes,
            }
            for variant in entry.variants
        ],
        "built": [
            {
                "folder": built.folder,
                "backend": built.backend,
                "arch": built.arch,
                "profile": built.profile,
                "flags": built.flags,
                "variants": [variant.name for variant in entry.variants if variant.name in built.variants],
                "possible": built.possible,
            }
            for built in entry.built
        ],
    }


def _axis_json(axis: Axis) -> dict[str, Any]:
    return {"name": axis.name, "values": list(axis.values), "short": axis.short, "default": axis.default}


def _accepts_json(kernel: Kernel) -> dict[str, Any]:
    return {name: {"min": accepted.start, "max": accepted.stop} for name, accepted in kernel.accepts.items()}


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _unique(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))
