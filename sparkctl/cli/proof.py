"""`sparkctl proof`: the before and after of a change for a pull request, on a device."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from sparkctl.cli.accuracy import one_dtype, one_number
from sparkctl.cli.options import (
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
    runtime_flags,
)
from sparkctl.errors import UsageError

if TYPE_CHECKING:
    from sparkctl.bench.axes import DecodeCase

HELP = """Prove a change: tests, accuracy, registers and an interleaved benchmark of two arms.

The arms are two values of an axis or a run-time flag, or with --vs another git revision and this tree.

Prints the table for a pull request, and refuses while a part is missing or fails or sources differ from the
commit. tok/s is attention only: batch / (layers × time of one call). Needs a CUDA device (docs/proof.md).

\b
Examples:
  sparkctl proof --ab FAPIPE=0,1
  sparkctl proof attn_decode_split_kv_mma --ab stages=1,2 --markdown
  sparkctl proof --ab FAPIPE=0,1 --seq 4k,16k,64k --save fapipe
  sparkctl proof attn_decode_split_kv_mma --vs HEAD~1

\b
Exit codes: 0 a gain, 1 no gain or a part fails, 2 wrong usage or a tree that
differs from its commit, 3 no device or tool, 130 interrupted.
"""
MOST = 1 << 20


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("proof", help=HELP)(proof)


def proof(
    ctx: typer.Context,
    kernels: Kernels = None,
    ab: Annotated[
        str | None,
        typer.Option("--ab", metavar="NAME=A,B", help="Before and after: an axis, num_splits or a run-time flag."),
    ] = None,
    vs: Annotated[
        str | None, typer.Option("--vs", metavar="REV", help="Before: a git revision, built beside this tree.")
    ] = None,
    seq: Annotated[str, typer.Option("--seq", metavar="LIST", help="kv_len; sizes such as 4k,16k.")] = "4k,16k",
    batch: Annotated[str, typer.Option("--batch", metavar="LIST", help="Sequences in a call.")] = "1,8",
    heads: Annotated[str, typer.Option("--heads", metavar="Q/KV", help="Query heads / kv heads.")] = "32/8",
    head_dim: HeadDim = None,
    dtype: Dtype = None,
    page_size: Annotated[
        str | None, typer.Option("--page-size", metavar="N", help="K and V in pages of this many keys.")
    ] = None,
    where: Where = None,
    layers: Annotated[
        int, typer.Option("--layers", metavar="N", min=1, max=MOST, help="Of the model that tok/s is of.")
    ] = 32,
    tokens: Annotated[
        int, typer.Option("--tokens", metavar="N", min=1, max=MOST, help="Decoded by every sequence.")
    ] = 128,
    full: Annotated[bool, typer.Option("--full", help="The larger set of test cases.")] = False,
    budget: Annotated[
        float, typer.Option("--budget", metavar="SECONDS", min=0, help="Sampling time for a case, if not precise.")
    ] = 3.0,
    profile: Profile = "release",
    sets: Sets = None,
    save: Annotated[
        str | None, typer.Option("--save", metavar="NAME", help="Keep it in benchmarks/results/<gpu>/NAME.json.")
    ] = None,
    json: Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="The table for a pull request.")] = False,
) -> None:
    """Plan, run every part, judge, show."""
    from sparkctl.bench.record import result_path, save_record
    from sparkctl.registry import parse_sets
    from sparkctl.render.console import print_json, stderr_console, stdout_console
    from sparkctl.render.proof import interrupted_line, proof_markdown, show_proof
    from sparkctl.render.proof_progress import ProofProgress
    from sparkctl.render.proof_record import proof_record
    from sparkctl.toolchain import find_toolchain
    from sparkctl.workflows.bench_ab import parse_ab
    from sparkctl.workflows.bench_vs import parse_revision
    from sparkctl.workflows.proof import find_proof_device, run_proof
    from sparkctl.workflows.proof_plan import ProofRequest

    if json and markdown:
        raise UsageError("--json and --markdown exclude each other", hint="choose one")
    if ab is not None and vs is not None:
        raise UsageError("--ab and --vs exclude each other", hint="arms differ in one thing: two runs")
    cli = cli_context(ctx)
    registry = load_project(cli)
    if vs is not None:
        parsed = parse_revision(registry, vs).ab
    elif ab is not None:
        parsed = parse_ab(registry, ab)
    else:
        raise UsageError("nothing to hold against each other", hint="before and after: --ab FAPIPE=0,1, or --vs HEAD~1")
    given = parse_sets(registry, sets or ())
    flags = runtime_flags(registry, given, without=parsed.name)
    axes = parse_where(where)
    for axis, option in (("head_dim", "--head-dim"), ("dtype", "--dtype"), ("paged", "--page-size")):
        if axis in axes:
            raise UsageError(f"--where {axis}=…: the cases decide it", hint=f"use {option}")
    dim, kind = one_number(head_dim, "--head-dim", 128), one_dtype(dtype, "bf16")
    arms = ["--vs", vs] if vs is not None else ["--ab", ab or ""]
    words = [*(kernels or ()), *arms, "--seq", seq, "--batch", batch, "--heads", heads]
    words += ["--head-dim", str(dim), "--dtype", kind]
    words += ["--page-size", page_size] if page_size is not None else []
    words += [word for name, values in axes.items() for word in ("--where", f"{name}={','.join(values)}")]
    words += ["--layers", str(layers), "--tokens", str(tokens), "--budget", f"{budget:g}", "--profile", profile]
    words += ["--full"] if full else []
    words += [word for name, value in {**given, **flags}.items() for word in ("--set", f"{name}={value}")]
    request = ProofRequest(
        ab=parsed,
        cases=_cases(seq, batch, heads, dim, kind, page_size),
        patterns=tuple(kernels or ()),
        where=axes,
        profile=profile,
        sets={name: value for name, value in given.items() if name not in flags},
        flags=flags,
        pages_given=page_size is not None,
        budget_s=budget,
        full=full,
        layers=layers,
        tokens=tokens,
        vs=vs,
        command=shlex.join(["sparkctl", "proof", *words]),
    )
    if save is not None:
        result_path(save, "any", registry.root)  # a bad name must not cost a run
    device = find_proof_device()
    stderr = stderr_console(cli)
    progress = ProofProgress(stderr, quiet=cli.verbosity < 0)
    try:
        done = run_proof(
            registry, request, device=device, toolchain=find_toolchain(environ=os.environ), watcher=progress
        )
    except KeyboardInterrupt:
        stderr.print(interrupted_line(progress.finished, progress.at), soft_wrap=True)
        raise
    finally:
        progress.stop()
    if json:
        print_json(proof_record(done))
    elif markdown:
        print(proof_markdown(done))
    else:
        show_proof(stdout_console(cli), done)
    if save is not None:
        path = save_record(proof_record(done), result_path(save, done.run.environment.gpu, registry.root))
        stderr.print(f"saved to {path}", soft_wrap=True)
    if not done.gain.proved:
        raise typer.Exit(1)


def _cases(
    seq: str, batch: str, heads: str, head_dim: int, dtype: str, page_size: str | None
) -> tuple[DecodeCase, ...]:
    from sparkctl.bench.axes import parse_heads, same_keys, span_cases
    from sparkctl.bench.sizes import parse_list, parse_size

    def positive(text: str) -> int:
        if (number := parse_size(text)) < 1:
            raise UsageError(f"'{text}' is less than 1")
        return number

    keys = same_keys(
        parse_list(seq, positive, option="--seq"),
        parse_list(batch, positive, option="--batch"),
    )
    return span_cases(
        keys=keys,
        heads=parse_list(heads, parse_heads, option="--heads"),
        head_dims=(head_dim,),
        dtypes=(dtype,),
        page_sizes=(None,) if page_size is None else parse_list(page_size, positive, option="--page-size"),
    )
