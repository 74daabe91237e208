"""`sparkctl flags`: the registry's flags, the values they end up with and why, and the checks on the file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from sparkctl.cli.options import (
    CliContext,
    Json,
    OneArch,
    Profile,
    Sets,
    cli_context,
    complete_kernels,
    load_project,
    project_folder,
)
from sparkctl.errors import SparkctlError, UsageError, WorkFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType

    from sparkctl.registry import Registry, Variant
    from sparkctl.render.flags import Explained

HELP = """The registry: show flags, explain their values, check flags.yaml.

\b
Examples:
  sparkctl flags                       every flag
  sparkctl flags show attn_combine     the values it is compiled with
  sparkctl flags explain attn_combine --profile debug --set fast_math=1
  sparkctl flags check                 exit 1 if something is wrong
"""

LIST_HELP = """Every flag: kind, default, what it accepts and does; -v adds why, options and lines.

\b
Examples:
  sparkctl flags list
  sparkctl flags list -v
"""

SHOW_HELP = """The final value of each flag that reaches a kernel, who set it, and the options.

A kernel stands for its first variant; name a variant to see another one's defines.

\b
Examples:
  sparkctl flags show attn_combine
  sparkctl flags show attn_combine.bf16.d128 --arch sm_90a
  SPARKCTL_FLAG_FAST_MATH=0 sparkctl flags show attn_combine
"""

EXPLAIN_HELP = """Every source that spoke on each flag, weakest first: default, profile, kernel, arch,
environment, --set, API call; the arrow marks the one that holds. Then every option, and where it is from.

\b
Examples:
  sparkctl flags explain attn_combine
  sparkctl flags explain attn_combine --profile debug --set fast_math=1
  sparkctl flags explain attn_combine --json
"""

CHECK_HELP = """Find what is wrong with flags.yaml: entries without source, sources without entry,
unused flags and axes, doubled or contradicting options, kernels without cases. Exit 1 if anything is.

\b
Examples:
  sparkctl flags check
  sparkctl flags check -v      every rule, the good ones too
  sparkctl flags check --json
"""

ExplainedKernel = Annotated[
    str,
    typer.Argument(metavar="KERNEL", help="A kernel's or a variant's name.", autocompletion=complete_kernels),
]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help=HELP, rich_markup_mode=None, invoke_without_command=True, subcommand_metavar="[COMMAND] …")
    group.callback()(_list_by_default)
    # The short texts fit beside the names at 80 columns.
    group.command("list", help=LIST_HELP, short_help="Every flag: kind, default, what it accepts and does.")(list_flags)
    group.command("show", help=SHOW_HELP, short_help="A kernel's final values, who set them, and the options.")(
        show_flags
    )
    group.command("explain", help=EXPLAIN_HELP, short_help="Every source that spoke on each flag of a kernel.")(
        explain_flags
    )
    group.command("check", help=CHECK_HELP, short_help="What is wrong with flags.yaml; exit 1 if anything is.")(
        check_flags
    )
    app.add_typer(group, name="flags")


def _list_by_default(ctx: typer.Context, json: Json = False) -> None:
    if ctx.invoked_subcommand is None:
        list_flags(ctx, json)
    elif json:
        raise UsageError(
            f"--json before '{ctx.invoked_subcommand}'", hint=f"sparkctl flags {ctx.invoked_subcommand} … --json"
        )


def list_flags(ctx: typer.Context, json: Json = False) -> None:
    from sparkctl.render.console import print_json, stdout_console
    from sparkctl.render.flags import flags_json, render_flags

    cli = cli_context(ctx)
    registry = load_project(cli)
    if json:
        print_json(flags_json(registry))
    else:
        stdout_console(cli).print(render_flags(registry, with_reasons=cli.verbosity > 0))


def show_flags(
    ctx: typer.Context,
    kernel: ExplainedKernel,
    arch: OneArch = None,
    profile: Profile = "release",
    sets: Sets = None,
    json: Json = False,
) -> None:
    from sparkctl.render.flags import render_values

    cli = cli_context(ctx)
    _print_explained(cli, _explain(cli, kernel, arch, profile, sets), render_values, json=json)


def explain_flags(
    ctx: typer.Context,
    kernel: ExplainedKernel,
    arch: OneArch = None,
    profile: Profile = "release",
    sets: Sets = None,
    json: Json = False,
) -> None:
    from sparkctl.render.flags import render_explanation

    cli = cli_context(ctx)
    _print_explained(cli, _explain(cli, kernel, arch, profile, sets), render_explanation, json=json)


def check_flags(ctx: typer.Context, json: Json = False) -> None:
    from sparkctl.registry import load_registry
    from sparkctl.render.console import print_json, stdout_console
    from sparkctl.render.flags import findings_json, render_findings
    from sparkctl.testing.cases import kernels_with_cases
    from sparkctl.workflows.check import check_registry

    cli = cli_context(ctx)
    folder = project_folder(cli)
    try:
        registry = load_registry(folder, strict=False)
    except SparkctlError as error:
        raise WorkFailed(error.message, hint=error.hint) from error
    findings = check_registry(registry, kernels_with_cases())
    if json:
        print_json(findings_json(findings))
    elif findings or cli.verbosity > 0:
        stdout_console(cli).print(render_findings(findings, with_rules=cli.verbosity > 0))
    if findings:
        things = "1 thing" if len(findings) == 1 else f"{len(findings)} things"
        raise WorkFailed(f"{registry.path.name}: {things} to mend", hint="docs/registry.md says what each rule is for")
    if not json and cli.verbosity == 0:
        print(f"{registry.path.name}: nothing to mend")


def _print_explained(
    cli: CliContext, explained: Explained, render: Callable[[Explained], RenderableType], *, json: bool
) -> None:
    from sparkctl.render.console import print_json, stdout_console
    from sparkctl.render.flags import explained_json

    if json:
        print_json(explained_json(explained))
    else:
        stdout_console(cli).print(render(explained))


def _explain(cli: CliContext, name: str, arch: str | None, profile: str, sets: list[str] | None) -> Explained:
    from sparkctl.arch import parse_arch
    from sparkctl.registry import parse_sets, resolve_flags
    from sparkctl.render.flags import Explained

    registry = load_project(cli)
    variant = _one_variant(registry, name)
    target = parse_arch(arch) if arch else None
    resolved = resolve_flags(
        registry, variant, arch=target, profile=profile, sets=parse_sets(registry, sets or []), environ=os.environ
    )
    return Explained(registry, variant, target.name if target else None, profile, resolved)


def _one_variant(registry: Registry, name: str) -> Variant:
    """The variant of this name, or the first of the kernel of this name."""
    from sparkctl.registry import select_variants

    found = select_variants(registry, [name])
    kernels = list(dict.fromkeys(variant.kernel.name for variant in found))
    if len(kernels) > 1:
        raise UsageError(f"'{name}' names {len(kernels)} kernels", hint="name one: " + ", ".join(kernels))
    return found[0]
