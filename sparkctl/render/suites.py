"""Suites of benchmark cases, as `sparkctl flags list` shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparkctl.registry import Registry, Suite
from sparkctl.render.console import indented, plain_table

if TYPE_CHECKING:
    from rich.console import RenderableType


def suite_blocks(registry: Registry, *, with_cases: bool) -> list[RenderableType]:
    """A row per suite beneath the flags, or a block each; nothing where there are none."""
    from rich.text import Text

    if not registry.suites:
        return []
    if with_cases:
        blocks: list[RenderableType] = []
        for suite in registry.suites.values():
            blocks += ["", Text.assemble("suite ", (suite.name, "bold")), indented(_suite_table(suite))]
        return blocks
    table = plain_table("suite", "cases", "what bench --suite measures")
    for suite in registry.suites.values():
        table.add_row(suite.name, str(len(suite.cases)), suite.doc)
    return ["", table]


def _suite_table(suite: Suite) -> RenderableType:
    table = plain_table("", "")
    table.show_header = False
    table.add_row("what", suite.doc)
    for index, case in enumerate(suite.cases):
        table.add_row("" if index else "cases", case)
    table.add_row("written", str(suite.location))
    return table


def suite_json(suite: Suite) -> dict[str, Any]:
    where = {"file": suite.location.file, "line": suite.location.line}
    return {"name": suite.name, "doc": suite.doc, "cases": list(suite.cases), "location": where}
