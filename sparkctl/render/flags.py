"""`sparkctl flags` as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from shlex import join
from typing import TYPE_CHECKING, Any

from sparkctl.registry import Flag, FlagOrigin, Location, Range, Registry, ResolvedFlags, Variant
from sparkctl.registry.values import accepted_text
from sparkctl.render.console import indented, plain_table
from sparkctl.render.suites import suite_blocks, suite_json
from sparkctl.workflows.check import RULES, Finding

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, slots=True)
class Explained:
    """One variant's flags under one profile and arch."""

    registry: Registry
    variant: Variant
    arch: str | None
    profile: str
    resolved: ResolvedFlags


def render_flags(registry: Registry, *, with_reasons: bool) -> RenderableType:
    """One row per flag and per suite; with_reasons adds why it exists and where it is written."""
    from rich.console import Group
    from rich.text import Text

    if with_reasons:
        blocks: list[RenderableType] = []
        for flag in registry.flags.values():
            blocks += [*([""] if blocks else []), Text(flag.name, style="bold"), indented(_flag_table(flag))]
        return Group(*blocks, *suite_blocks(registry, with_cases=True))
    table = plain_table("flag", "kind", "default", "accepts", "what it does")
    for flag in registry.flags.values():
        table.add_row(flag.name, flag.kind, shown(flag.default), _accepted(flag), flag.doc)
    return Group(table, *suite_blocks(registry, with_cases=False))


def render_values(explained: Explained) -> RenderableType:
    """`flags show`: the final value of each flag, who set it, and the options that follow."""
    from rich.console import Group

    table = plain_table("flag", "value", "set by", "where", "default")
    for step in explained.resolved.chain:
        if step.won:
            default = shown(explained.registry.flags[step.flag].default)
            table.add_row(step.flag, shown(step.value), step.source, _where(step), default)
    return Group(_title(explained), indented(table), "", indented(_options_table(explained.resolved)))


def render_explanation(explained: Explained) -> RenderableType:
    """`flags explain`: every source of every flag, weakest first, then every option with its source."""
    from rich.console import Group
    from rich.text import Text

    blocks: list[RenderableType] = [_title(explained)]
    for name, group in groupby(explained.resolved.chain, key=lambda step: step.flag):
        steps = list(group)
        table = plain_table("", "", "", "")
        table.show_header = False
        for step in steps:
            table.add_row("→" if step.won else " ", step.source, shown(step.value), _where(step))
        blocks += ["", Text.assemble((name, "bold"), f" = {shown(steps[-1].value)}"), indented(table)]
    table = plain_table("tool", "option", "from", "where")
    for option in sorted(explained.resolved.options, key=lambda option: ("nvcc", "ptxas", "host").index(option.tool)):
        table.add_row(option.tool, join([option.token]), option.source, str(option.location or "-"))
    for macro, value in explained.resolved.defines.items():
        source, where = _macro_source(explained, macro)
        table.add_row("define", f"{macro}={value}", source, str(where or "-"))
    return Group(*blocks, "", table)


def render_findings(findings: Sequence[Finding], *, with_rules: bool) -> RenderableType:
    """`flags check`: a line for each finding; with_rules one for each rule instead, good ones too."""
    from rich.console import Group

    lines: list[str] = []
    for rule, promise in RULES.items():
        bad = [finding for finding in findings if finding.rule == rule]
        if with_rules or bad:
            lines.append(f"{'failed' if bad else 'ok':<7} {promise}")
        for finding in bad:
            lines.append(f"        {finding.location or 'project'}: {finding.what}")
            lines += [f"          hint: {finding.hint}"] if finding.hint else []
    return Group(*lines)


def flags_json(registry: Registry) -> dict[str, Any]:
    return {
        "flags": [_flag_json(flag) for flag in registry.flags.values()],
        "suites": [suite_json(suite) for suite in registry.suites.values()],
    }


def explained_json(explained: Explained) -> dict[str, Any]:
    resolved = explained.resolved
    return {
        "kernel": explained.variant.kernel.name,
        "variant": explained.variant.name,
        "arch": explained.arch,
        "profile": explained.profile,
        "flags": [
            {"name": name, "value": resolved.values[name], "chain": [_step_json(step) for step in steps]}
            for name, steps in groupby(resolved.chain, key=lambda step: step.flag)
        ],
        "options": [
            {
                "tool": option.tool,
                "token": option.token,
                "source": option.source,
                "location": _location_json(option.location),
            }
            for option in resolved.options
        ],
        "defines": dict(resolved.defines),
    }


def findings_json(findings: Sequence[Finding]) -> dict[str, Any]:
    return {
        "ok": not findings,
        "findings": [
            {
                "rule": finding.rule,
                "location": _location_json(finding.location),
                "what": finding.what,
                "hint": finding.hint,
            }
            for finding in findings
        ],
    }


def shown(value: str) -> str:
    """A value as it would be typed: empty is ''."""
    return join([value])


def _accepted(flag: Flag) -> str:
    return "any text" if flag.type == "str" and flag.accepts is None else accepted_text(flag)


def _flag_table(flag: Flag) -> RenderableType:
    table = plain_table("", "")
    table.show_header = False
    rows = {
        "what": flag.doc,
        "why": flag.reason,
        "kind": flag.kind + (f", sets {flag.define}" if flag.define else ""),
        "default": shown(flag.default),
        "accepts": _accepted(flag),
        "affects": ", ".join(flag.affects),
        "options": "; ".join(f"{value} → {join(tokens) or 'none'}" for value, tokens in flag.options.items()),
        "written": str(flag.location),
    }
    for label, text in rows.items():
        if text:
            table.add_row(label, text)
    return table


def _title(explained: Explained) -> RenderableType:
    from rich.text import Text

    arch = f", {explained.arch}" if explained.arch else ""
    return Text.assemble((explained.variant.name, "bold"), f"  profile {explained.profile}{arch}")


def _options_table(resolved: ResolvedFlags) -> RenderableType:
    table = plain_table("", "")
    table.show_header = False
    for tool, tokens in (("nvcc", resolved.nvcc), ("ptxas", resolved.ptxas), ("host", resolved.host)):
        table.add_row(tool, join(tokens))
    table.add_row("define", " ".join(f"{macro}={value}" for macro, value in resolved.defines.items()))
    return table


def _macro_source(explained: Explained, macro: str) -> tuple[str, Location | None]:
    registry, kernel = explained.registry, explained.variant.kernel
    profile = registry.profiles[explained.profile]
    if macro in profile.define:
        return f"profile {profile.name}", profile.locations.get(f"define:{macro}")
    for flag in registry.flags.values():
        if flag.define == macro and flag.reaches(kernel.name):
            return f"flag {flag.name}={explained.resolved.values[flag.name]}", flag.location
    for axis in kernel.axes:
        if macro == f"SPARK_{axis.name.upper()}":
            return f"axis {axis.name}", axis.location
    if macro.startswith("SPARK_ACCEPTS_"):
        return "accepts", kernel.locations.get("accepts")
    formula = {"SPARK_BLOCK": "block", "SPARK_DYNAMIC_SMEM": "dynamic_smem"}.get(macro)
    return (formula, kernel.locations.get(formula, kernel.location)) if formula else ("the variant", kernel.location)


def _where(step: FlagOrigin) -> str:
    if step.location is not None:
        return str(step.location)
    return f"SPARKCTL_FLAG_{step.flag.upper()}" if step.source == "environment" else "-"


def _flag_json(flag: Flag) -> dict[str, Any]:
    accepts: Any = flag.accepts
    if isinstance(flag.accepts, Range):
        accepts = {"min": flag.accepts.start, "max": flag.accepts.stop}
    elif flag.accepts is not None:
        accepts = list(flag.accepts)
    return {
        "name": flag.name,
        "kind": flag.kind,
        "type": flag.type,
        "default": flag.default,
        "accepts": accepts,
        "affects": list(flag.affects),
        "define": flag.define,
        "options": {value: list(tokens) for value, tokens in flag.options.items()},
        "doc": flag.doc,
        "reason": flag.reason,
        "location": _location_json(flag.location),
    }


def _step_json(step: FlagOrigin) -> dict[str, Any]:
    return {
        "source": step.source,
        "value": step.value,
        "won": step.won,
        "location": _location_json(step.location),
    }


def _location_json(location: Location | None) -> dict[str, Any] | None:
    return {"file": location.file, "line": location.line} if location else None
