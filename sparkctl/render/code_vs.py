"""The code of two revisions for people and programs: what the mix gained and lost, the diff of the listing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sparkctl.render.code import GAP, LOUD, built_with, count, folded, function_name
from sparkctl.render.code_export import row_json
from sparkctl.resources.code_diff import NORMALISED, GroupChange
from sparkctl.resources.sass import LOCAL
from sparkctl.workflows.code import CodeRow, Registers
from sparkctl.workflows.code_compare import CodeChange, CodeChanges

COLORS = {"-": "red", "+": "green", " ": ""}


def render_changes(changes: CodeChanges, *, width: int, verbose: bool = False) -> RenderableType:
    """A block for each row that changed, all rows under `verbose`; what did not change is counted."""
    parts: list[RenderableType] = [Text(f"{changes.revision} → here"), Text()]
    for row in changes.rows:
        if verbose or row.status != "same":
            parts += [_block(row, width), Text()]
    return Group(*parts, *_notes(changes))


def pair(old: object, new: object) -> str:
    """`40 → 38`, or `40`."""
    return str(new) if old == new else f"{old} → {new}"


def _block(row: CodeChange, width: int) -> RenderableType:
    heading = Text.assemble((f"{row.name}  {row.arch.name}", "bold"), f"  {row.status}")
    if row.old is None or row.new is None:
        side = row.new or row.old
        assert side is not None
        return Group(heading, Text(f"{side.registers.count} registers, {count(side.mix.total, 'instruction')}"))
    spilled = row.new.registers.spills or row.old.registers.spills
    facts = Text(f"{_registers(row.old.registers, row.new.registers)}; {_size(row.old, row.new)}")
    parts: list[RenderableType] = [heading, Text(function_name(row.new)), facts]
    if spilled:
        facts.stylize(LOUD)
    if row.groups:
        parts += [Text(), _table(row.groups, width)]
    elif row.hunks:
        parts.append(Text("the same mix: instructions were exchanged or moved, --listing shows them"))
    return Group(*parts)


def _registers(old: Registers, new: Registers) -> str:
    text = f"{pair(_known(old.count), _known(new.count))} registers"
    if not (old.spills or new.spills):
        return f"{text}, no spills"
    return f"{text}, !spills {pair(_spills(old), _spills(new))} B"


def _spills(registers: Registers) -> str:
    return f"{registers.spill_store_bytes}/{registers.spill_load_bytes}"


def _size(old: CodeRow, new: CodeRow) -> str:
    text = f"{pair(old.mix.total, new.mix.total)} instructions"
    return f"{text}, {pair(_known(old.mix.total_looped), _known(new.mix.total_looped))} of them in loops"


def _known(number: int | None) -> str:
    return "–" if number is None else str(number)


def _table(groups: tuple[GroupChange, ...], width: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    table.add_column("kind", no_wrap=True)
    table.add_column("all", justify="right", no_wrap=True)
    table.add_column("loops", justify="right", no_wrap=True)
    table.add_column("of these", overflow="fold")
    cells = [
        (
            f"! {group.group}" if group.group in LOCAL else group.group,
            pair(*group.all),
            "–" if group.looped is None else pair(*group.looped),
            [f"{name} {pair(*numbers)}" for name, numbers in group.names.items()],
        )
        for group in groups
    ]
    used = sum(max(map(len, column)) + GAP for column in zip(*(row[:3] for row in cells), strict=True))
    for group, (name, all_, looped, names) in zip(groups, cells, strict=True):
        table.add_row(name, all_, looped, folded(names, width - used), style=LOUD if group.group in LOCAL else "")
    return table


def _notes(changes: CodeChanges) -> Iterator[Text]:
    same = changes.count("same")
    if same:
        yield Text(f"the same: {same} of {count(len(changes.rows), 'kernel')}")
    for name in changes.gone:
        yield Text(f"gone: {name}")
    yield Text(NORMALISED, style="dim")
    yield built_with(changes.new)


def diff_lines(changes: CodeChanges) -> Iterator[Text]:
    """Unified diffs of the listings; the lines of both sides are shown with the new registers."""
    for row in changes.rows:
        yield Text(f"--- {row.name} {row.arch.name} at {changes.revision}", style="bold")
        yield Text(f"+++ {row.name} {row.arch.name} here", style="bold")
        if row.old is None:
            yield Text(f"{changes.revision} does not have it", style="dim")
        elif not row.hunks:
            yield Text(f"the code is the same, {NORMALISED}", style="dim")
        for hunk in row.hunks:
            where = f"-{hunk.old_start},{hunk.old_count} +{hunk.new_start},{hunk.new_count}"
            yield Text(f"@@ {where} @@", style="cyan")
            for line in hunk.lines:
                yield Text(f"{line.mark}{line.text}", style=COLORS[line.mark])
        if row.hunks:
            yield Text(f"# {NORMALISED}", style="dim")


def changes_json(changes: CodeChanges, *, listing: bool = False) -> dict[str, Any]:
    """Both sides of every row, also of those that are the same."""
    return {
        "command": changes.new.form,
        "vs": changes.revision,
        "commit": changes.commit,
        "compiler": changes.new.compiler,
        "profile": changes.new.profile,
        "sets": dict(changes.new.sets),
        "archs": [arch.name for arch in changes.new.archs],
        "normalised": NORMALISED,
        "kernels": [_change_json(row, listing=listing) for row in changes.rows],
        "gone": list(changes.gone),
    }


def _change_json(row: CodeChange, *, listing: bool) -> dict[str, Any]:
    data: dict[str, Any] = {
        "variant": row.name,
        "arch": row.arch.name,
        "status": row.status,
        "old": row_json(row.old) if row.old else None,
        "new": row_json(row.new) if row.new else None,
    }
    if listing:
        data["diff"] = [f"{line.mark}{line.text}" for hunk in row.hunks for line in hunk.lines]
    return data
