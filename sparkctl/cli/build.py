"""`sparkctl build`: compile what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sparkctl.cli.options import (
    Archs,
    Dtype,
    HeadDim,
    Json,
    Kernels,
    Profile,
    Sets,
    Where,
    cli_context,
    load_project,
    parse_where,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparkctl.arch import Arch
    from sparkctl.build import BuildPlan
    from sparkctl.registry import Registry
    from sparkctl.toolchain import Toolchain

HELP = """Compile just what changed: one object per variant, one library per backend, arch and profile.

\b
Examples:
  sparkctl build                                    everything, for this GPU
  sparkctl build 'attn_decode_*' --head-dim 128     some variants
  sparkctl build --arch sm_89,sm_90a                two archs
  sparkctl build --backend emulator                 for the CPU
  sparkctl build --explain                          and why each edge ran
  sparkctl build --dry-run --set fast_math=0        only print the commands
  sparkctl build attn_combine --runner              and the test runner
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("build", help=HELP)(build)


def build(
    context: typer.Context,
    kernels: Kernels = None,
    arch: Archs = None,
    backend: Annotated[Literal["cuda", "emulator"], typer.Option("--backend", help="What to build for.")] = "cuda",
    profile: Profile = "release",
    sets: Sets = None,
    where: Where = None,
    head_dim: HeadDim = None,
    dtype: Dtype = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "-j",
            "--jobs",
            metavar="N",
            min=1,
            help="Compilers at once; else what cores and memory allow.",
            show_default=False,
        ),
    ] = None,
    nvcc: Annotated[
        str | None, typer.Option("--nvcc", metavar="FILE", help="This nvcc, before all others.", show_default=False)
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say why each edge runs.")] = False,
    runner: Annotated[
        bool,
        typer.Option("--runner", help="The standalone test runner too (docs/testing.md)."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the exact commands and run none.")] = False,
    json: Json = False,
) -> None:
    """Plan, run, show."""
    import os

    from sparkctl.build import choose_archs, preview_build, raise_failures, run_build
    from sparkctl.registry import parse_sets
    from sparkctl.toolchain import find_toolchain

    cli = cli_context(context)
    registry = load_project(cli)
    toolchain = find_toolchain(nvcc=nvcc, environ=os.environ)
    plans = _plans(
        registry,
        kernels or (),
        archs=choose_archs(arch, toolchain, backend=backend, registry=registry),
        backend=backend,
        profile=profile,
        sets=parse_sets(registry, sets or ()),
        where=parse_where(where, head_dim, dtype),
        toolchain=toolchain,
        runner=runner,
    )
    if dry_run:
        from sparkctl.render.build import preview_json, preview_text
        from sparkctl.render.console import print_json

        previews = preview_build(plans)
        if json:
            print_json(preview_json(previews))
        else:
            print("\n".join(preview_text(previews, explain=explain)))
        return

    from sparkctl.render.build import build_json, show_build
    from sparkctl.render.build_progress import ConsoleProgress
    from sparkctl.render.console import print_json, stderr_console, stdout_console

    progress = ConsoleProgress(stderr_console(cli), quiet=cli.verbosity < 0)
    result = run_build(plans, jobs=jobs, progress=progress)
    if json:
        print_json(build_json(result))
    else:
        show_build(stdout_console(cli), result, explain=explain, every=cli.verbosity > 0)
    raise_failures(result)


def _plans(
    registry: Registry,
    kernels: Sequence[str],
    *,
    archs: Sequence[Arch],
    backend: Literal["cuda", "emulator"],
    profile: str,
    sets: dict[str, str],
    where: dict[str, list[str]],
    toolchain: Toolchain,
    runner: bool,
) -> list[BuildPlan]:
    import os

    from sparkctl.build import plan_build, with_combines
    from sparkctl.registry import select_variants

    selected = {arch: select_variants(registry, kernels, arch=arch, where=where) for arch in archs}
    return [
        plan_build(
            registry,
            with_combines(registry, variants) if runner else variants,
            arch=arch,
            backend=backend,
            profile=profile,
            sets=sets,
            toolchain=toolchain,
            environ=os.environ,
            runner=runner,
        )
        for arch, variants in selected.items()
    ]
