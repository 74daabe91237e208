"""`sparkctl accuracy`: attention kernels against fp64, against each other, and in a model's answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sparkctl.cli.options import (
    Dtype,
    HeadDim,
    Json,
    Kernels,
    OneArch,
    Profile,
    Sets,
    Where,
    cli_context,
    load_project,
    parse_where,
    runtime_flags,
    split_commas,
)
from sparkctl.cli.test import BackendChoice, parse_seed
from sparkctl.errors import UsageError

HELP = """Judge attention kernels: error against fp64, the arms' bits, and a model's answers.

Each arm runs a few shapes, held against fp64 and, with --ab, bit by bit against the first arm. Then it is
the attention of a seeded stack of layers under an LM head: its logits must keep the most likely token and
stay close to those of fp64 attention (docs/accuracy.md).

\b
Examples:
  sparkctl accuracy                               what the operators choose
  sparkctl accuracy fa_split_gqa --ab FAPIPE=0,1
  sparkctl accuracy attn_decode_split_kv_mma --ab stages=1,2
  sparkctl accuracy 'attn_prefill_*' --head-dim 64 --dtype fp16
  sparkctl accuracy --set fast_math=0 --backend cuda
  sparkctl accuracy --model ~/models/qwen3-0.6b   a model from a folder

\b
Exit codes: 0 all passed, 1 an arm or a build failed, 2 wrong usage,
3 no device for --backend cuda, or no transformers for --model.
"""
MOST_POSITIONS = 1 << 16


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("accuracy", help=HELP)(accuracy)


def accuracy(
    ctx: typer.Context,
    kernels: Kernels = None,
    where: Where = None,
    head_dim: HeadDim = None,
    dtype: Dtype = None,
    ab: Annotated[
        str | None,
        typer.Option("--ab", metavar="NAME=A,B", help="Arms that differ in an axis, num_splits or a run-time flag."),
    ] = None,
    backend: Annotated[
        BackendChoice, typer.Option("--backend", help="auto: a CUDA device if there is one, else the emulator.")
    ] = BackendChoice.auto,
    arch: OneArch = None,
    profile: Profile = "release",
    sets: Sets = None,
    seed: Annotated[int, typer.Option("--seed", metavar="S", help="Other weights, tokens and inputs.")] = 0,
    layers: Annotated[int, typer.Option("--layers", metavar="N", min=1, max=128, help="Of the stack.")] = 4,
    prompt: Annotated[
        int, typer.Option("--prompt", metavar="N", min=1, max=MOST_POSITIONS, help="Positions ahead of the steps.")
    ] = 192,
    steps: Annotated[
        int, typer.Option("--steps", metavar="N", min=0, max=MOST_POSITIONS, help="Positions decoded one by one.")
    ] = 48,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="FOLDER", help="A Hugging Face model's answers in place of the stack's."),
    ] = None,
    json: Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="A table for a pull request.")] = False,
) -> None:
    """Plan, build, run, judge."""
    from sparkctl.arch import parse_arch
    from sparkctl.registry import parse_sets
    from sparkctl.render.accuracy import accuracy_json, accuracy_markdown, show_accuracy
    from sparkctl.render.bench_progress import CaseProgress
    from sparkctl.render.build_progress import ConsoleProgress
    from sparkctl.render.console import print_json, stderr_console, stdout_console
    from sparkctl.workflows.accuracy import run_accuracy
    from sparkctl.workflows.accuracy_plan import AccuracyRequest, of_model, sizes_of
    from sparkctl.workflows.bench_ab import parse_ab
    from sparkctl.workflows.suite import SuiteOptions
    from sparkctl.workflows.test import choose_backend

    if json and markdown:
        raise UsageError("--json and --markdown exclude each other", hint="choose one")
    cli = cli_context(ctx)
    registry = load_project(cli)
    parsed = parse_ab(registry, ab) if ab is not None else None
    given = parse_sets(registry, sets or ())
    flags = runtime_flags(registry, given, without=parsed.name if parsed else None)
    axes = parse_where(where)
    for name, option in (("head_dim", "--head-dim"), ("dtype", "--dtype")):
        if name in axes:
            raise UsageError(f"--where {name}: the sizes of a run are options", hint=f"{option} {axes[name][0]}")
    usual_head_dim, usual_dtype = sizes_of(registry, kernels or ())
    request = AccuracyRequest(
        patterns=tuple(kernels or ()),
        where=axes,
        head_dim=one_number(head_dim, "--head-dim", usual_head_dim),
        dtype=one_dtype(dtype, usual_dtype),
        profile=profile,
        sets={name: value for name, value in given.items() if name not in flags},
        flags=flags,
        ab=parsed,
        seed=parse_seed(seed),
        layers=layers,
        prompt=prompt,
        steps=steps,
    )
    if model is not None:
        from sparkctl.testing.model_folder import read_facts

        for parameter, given_as in (("layers", "--layers"), ("head_dim", "--head-dim")):
            if is_given(ctx, parameter):
                raise UsageError(f"--model {model}: {given_as} is the model's own", hint=f"leave out {given_as}")
        request = of_model(request, read_facts(Path(model).expanduser()), request.dtype if dtype else None)
    chosen = SuiteOptions(backend=backend.value, arch=parse_arch(arch) if arch is not None else None)
    where_to, device, for_arch = choose_backend(chosen)
    stderr, quiet = stderr_console(cli), cli.verbosity < 0
    progress = CaseProgress(stderr, quiet=quiet)
    try:
        report = run_accuracy(
            registry,
            request,
            backend=where_to,
            device=device,
            arch=for_arch,
            at_arm=progress.at,
            progress=ConsoleProgress(stderr, quiet=quiet),
        )
    finally:
        progress.stop()
    if json:
        print_json(accuracy_json(report))
    elif markdown:
        print(accuracy_markdown(report))
    else:
        show_accuracy(stdout_console(cli), report)
    if not report.passed:
        raise typer.Exit(1)


def is_given(ctx: typer.Context, parameter: str) -> bool:
    """On the command line."""
    source = ctx.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"


def one_number(values: list[str] | None, option: str, default: int) -> int:
    """UsageError for more than one value, or for one that is no number."""
    words = split_commas(values)
    if not words:
        return default
    if len(words) > 1 or not words[0].isdecimal():
        raise UsageError(f"{option} {','.join(words)}: one number is taken here", hint=f"{option} {default}")
    return int(words[0][:9])


def one_dtype(values: list[str] | None, default: str) -> str:
    """UsageError for more than one value, or for one that no kernel has."""
    from sparkctl.bench.axes import DTYPES

    words = split_commas(values) or [default]
    if len(words) > 1 or words[0] not in DTYPES:
        raise UsageError(f"--dtype {','.join(words)}: one of {' and '.join(DTYPES)} is taken", hint="--dtype bf16")
    return words[0]
