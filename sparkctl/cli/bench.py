"""`sparkctl bench`: time kernels on a device, or print floor times of a GPU that is not here."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from sparkctl.cli.bench_cases import CASE_PARAMETERS, Lengths, read_axes
from sparkctl.cli.bench_output import Output, prepare, remember, show_history, show_run, show_saved
from sparkctl.cli.bench_own import bench_own, takes_own_bench
from sparkctl.cli.options import (
    Json,
    Kernels,
    Profile,
    Sets,
    Where,
    cli_context,
    complete_suites,
    load_project,
    parse_where,
    runtime_flags,
)
from sparkctl.errors import UsageError

if TYPE_CHECKING:
    from sparkctl.bench.axes import DecodeCase
    from sparkctl.workflows.bench_request import BenchRequest

HELP = """Time attention kernels on a CUDA device against a measured read ceiling and other libraries.

Without KERNEL the operator chooses, as it would in a program. Cold L2, CUDA graph, outputs checked.
--ab measures arms that differ in one axis, in num_splits or in a flag, in the same rounds; --vs holds this tree against
another revision or library in the same way.

\b
Suites: decode, paged, prefill, ragged, short; as in models: llama3-8b,
llama3-70b, qwen3-30b-a3b, gemma. `sparkctl flags list` shows them.

\b
Examples:
  sparkctl bench --suite decode                 15 cases, batch 1 to 64
  sparkctl bench --suite llama3-8b,gemma --batch 1
  sparkctl bench --seq 16k                      batch 1 and 8, 32/8 heads
  sparkctl bench --seq 4k,16k --batch 1,8 --heads 32/8,32/4
  sparkctl bench attn_decode_split_kv_mma --where stages=1,2,4
  sparkctl bench --seq 16k --page-size none,1,16   contiguous, then in pages
  sparkctl bench --prefill --causal --seq 4k --batch 1
  sparkctl bench --ragged 128-16k --batch 16,64 --page-size none,16
  sparkctl bench --seq-lens 63*128,16k          one long beside many short
  sparkctl bench attn_decode_split_kv_mma --ab stages=1,2
  sparkctl bench --seq 1k --ab num_splits=auto,4,8
  sparkctl bench --seq 16k --ab min_blocks=1,4  a library for each value
  sparkctl bench --seq 16k --options lse,window=4k,softcap=30,sinks
  sparkctl bench --seq 16k --vs HEAD~1          or --vs FOLDER of a library
  sparkctl bench --seq 16k --save decode-16k    keep it in benchmarks/results
  sparkctl bench --from decode --csv            a saved run once more
  sparkctl bench --from decode --plot decode.png   its roofline and scaling
  sparkctl bench --seq 16k --baseline decode    held against a saved run
  sparkctl bench --history attn_decode_split_kv_mma   every run so far
  sparkctl bench --seq 16k --estimate H200      floor times, no device needed
  sparkctl bench rmsnorm                        your own: its bench_cases()
"""

# What decides how a case is measured, and says nothing about its floor: parameter to option.
MEASURED_ONLY = {
    "kernels": "KERNEL",
    "variant": "--variant",
    "where": "--where",
    "num_splits": "--num-splits",
    "l2": "--l2",
    "peers": "--peers",
    "budget": "--budget",
    "ab": "--ab",
    "vs": "--vs",
    "options": "--options",
    "profile": "--profile",
    "set_": "--set",
    "no_equal": "--no-equal",
    "save": "--save",
    "from_": "--from",
    "history": "--history",
    "baseline": "--baseline",
    "plot": "--plot",
    "no_plot": "--no-plot",
}

SuiteOption = Annotated[
    str | None,
    typer.Option(
        "--suite",
        metavar="LIST",
        help="Cases of flags.yaml by name; --batch and the like narrow them.",
        autocompletion=complete_suites,
    ),
]
Seq = Annotated[str, typer.Option("--seq", metavar="LIST", help="kv_len; sizes such as 4k,16k.")]
Batch = Annotated[str, typer.Option("--batch", metavar="LIST", help="Sequences in a call.")]
HeadsOption = Annotated[str, typer.Option("--heads", metavar="Q/KV", help="Query heads / kv heads; a list too.")]
HeadDims = Annotated[str, typer.Option("--head-dim", metavar="LIST", help="Elements of a head.")]
Dtypes = Annotated[str, typer.Option("--dtype", metavar="LIST", help="bf16, fp16.")]
VariantNames = Annotated[
    list[str] | None, typer.Option("--variant", metavar="NAME", help="This variant; repeatable.", show_default=False)
]
PageSizes = Annotated[
    str | None,
    typer.Option("--page-size", metavar="LIST", help="K and V in pages of this many keys; none: contiguous."),
]
AbOption = Annotated[
    list[str] | None,
    typer.Option("--ab", metavar="NAME=VALUES", help="Hold values of an axis or a flag against the first."),
]
VsOption = Annotated[
    str | None,
    typer.Option("--vs", metavar="REV|LIBRARY", help="Hold this tree against a git revision or a built library."),
]
SeqLens = Annotated[
    str | None,
    typer.Option("--seq-lens", metavar="LIST", help="One batch of these lengths: 128,1k,16k or 63*128,16k."),
]
Ragged = Annotated[
    str | None,
    typer.Option("--ragged", metavar="MIN-MAX", help="Batches whose lengths are drawn, log-uniformly: 128-16k."),
]
Seed = Annotated[int | None, typer.Option("--seed", metavar="N", min=0, help="Of --ragged; 0 if left out.")]
NoEqual = Annotated[
    bool, typer.Option("--no-equal", help="No case of one length, and as many keys, beside each ragged one.")
]
CallOptionsList = Annotated[
    str | None,
    typer.Option(
        "--options", metavar="LIST", help="Hold calls with lse, window=4k, softcap=30 or sinks against the plain one."
    ),
]
QoLen = Annotated[str, typer.Option("--qo-len", metavar="LIST", help="Query positions of each sequence.")]
Causal = Annotated[bool, typer.Option("--causal", help="Mask to the bottom right; matters from --qo-len 2 on.")]
Prefill = Annotated[
    bool, typer.Option("--prefill", help="The operator prefill; qo_len is kv_len unless --qo-len says another.")
]
NumSplits = Annotated[
    int | None, typer.Option("--num-splits", metavar="N", min=1, help="Splits along kv; planned if left out.")
]
L2 = Annotated[str, typer.Option("--l2", metavar="LIST", help="K and V from DRAM (cold), L2 (hot), or cold,hot.")]
PeerNames = Annotated[
    str,
    typer.Option(
        "--peers",
        metavar="LIST",
        help="Libraries to compare with: sdpa, sdpa-efficient, fa3, flashinfer, flex; all, or none.",
    ),
]
Budget = Annotated[
    float, typer.Option("--budget", metavar="SECONDS", min=0, help="Sampling time for a row, if it is not precise.")
]
EstimateOption = Annotated[
    str | None, typer.Option("--estimate", metavar="GPU", help="Print floor times for a named GPU and stop.")
]
Save = Annotated[
    str | None, typer.Option("--save", metavar="NAME", help="Keep the run in benchmarks/results/<gpu>/NAME.json.")
]
Csv = Annotated[bool, typer.Option("--csv", help="One line per row on stdout.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="A table for a pull request on stdout.")]

From = Annotated[
    str | None, typer.Option("--from", metavar="FILE", help="Show a saved run: a file, or the NAME it was saved under.")
]
History = Annotated[
    str | None, typer.Option("--history", metavar="KERNEL", help="Show what was recorded of a kernel, run by run.")
]
BaselineOption = Annotated[
    str | None, typer.Option("--baseline", metavar="NAME", help="Hold the rows against a saved run.")
]
Plot = Annotated[
    str | None, typer.Option("--plot", metavar="OUT", help="Draw a roofline and scaling: a .png or .svg file.")
]
NoPlot = Annotated[bool, typer.Option("--no-plot", help="No bars beneath the table.")]


def register(app: typer.Typer) -> None:
    app.command("bench", help=HELP)(bench)


def bench(
    ctx: typer.Context,
    kernels: Kernels = None,
    suite: SuiteOption = None,
    seq: Seq = "4k,16k",
    batch: Batch = "1,8",
    heads: HeadsOption = "32/8",
    head_dim: HeadDims = "128",
    dtype: Dtypes = "bf16",
    page_size: PageSizes = None,
    seq_lens: SeqLens = None,
    ragged: Ragged = None,
    seed: Seed = None,
    no_equal: NoEqual = False,
    qo_len: QoLen = "1",
    causal: Causal = False,
    prefill: Prefill = False,
    num_splits: NumSplits = None,
    l2: L2 = "cold",
    variant: VariantNames = None,
    where: Where = None,
    ab: AbOption = None,
    vs: VsOption = None,
    options: CallOptionsList = None,
    peers: PeerNames = "sdpa",
    budget: Budget = 3.0,
    profile: Profile = "release",
    set_: Sets = None,
    estimate: EstimateOption = None,
    save: Save = None,
    from_: From = None,
    history: History = None,
    baseline: BaselineOption = None,
    plot: Plot = None,
    no_plot: NoPlot = False,
    json: Json = False,
    csv: Csv = False,
    markdown: Markdown = False,
) -> None:
    if json + csv + markdown > 1:
        raise UsageError("--json, --csv and --markdown exclude each other", hint="choose one")
    output = Output(json=json, csv=csv, markdown=markdown, bars=not no_plot)
    if from_ is not None:
        show_saved(ctx, from_, output, plot, baseline)
        return
    if history is not None:
        show_history(ctx, history, output, plot)
        return
    if takes_own_bench(ctx, (*(kernels or ()), *(variant or ()))):
        own_patterns = (*(kernels or ()), *(variant or ()))
        bench_own(ctx, own_patterns, where, profile, set_, budget, peers=peers != "none", json=json)
        return
    from sparkctl.bench.axes import with_equal_cases

    axes_given = frozenset(name for name in CASE_PARAMETERS if _is_given(ctx, name))
    lengths = Lengths(seq_lens, ragged, seed, axes_given)
    spoken = read_axes(seq, batch, heads, head_dim, dtype, page_size, qo_len, causal, num_splits, l2, lengths, prefill)
    cases = spoken.span() if suite is None else spoken.of_suites(cli_context(ctx).project, suite, axes_given)
    if no_equal and all(case.kv_lens is None for case in cases):
        raise UsageError("--no-equal: no case has several lengths", hint="beside --ragged or --seq-lens")
    if not no_equal and ab is None and vs is None and options is None and estimate is None:
        cases = with_equal_cases(cases)
    if estimate is not None:
        _refuse_what_an_estimate_ignores(ctx)
        _show_estimates(ctx, cases, estimate, json=json, other=csv or markdown)
        return
    from sparkctl.registry import parse_sets
    from sparkctl.workflows.bench_ab import parse_ab, parse_options
    from sparkctl.workflows.bench_request import BenchRequest
    from sparkctl.workflows.bench_vs import parse_vs

    axes = parse_where(where)
    for axis, option in (("head_dim", "--head-dim"), ("dtype", "--dtype"), ("paged", "--page-size")):
        if axis in axes:
            raise UsageError(f"--where {axis}=…: the cases decide it", hint=f"use {option}")
    registry = load_project(cli_context(ctx))
    if ab is not None and len(ab) > 1:
        raise UsageError("--ab is given twice", hint="arms differ in one thing, so that a difference has one cause")
    if options is not None and _is_given(ctx, "peers") and peers.strip() != "none":
        raise UsageError("--options takes no --peers: the plain call is what the others are held against")
    if (ab or vs is not None or options is not None) and not _is_given(ctx, "peers"):
        peers = "none"  # the arms are each other's peers
    sets = parse_sets(registry, set_ or ())
    parsed = parse_ab(registry, ab[0], compiled=True) if ab else None
    if vs is not None:
        if ab:
            raise UsageError("--ab and --vs exclude each other", hint="arms differ in one thing: two runs")
        parsed = parse_vs(registry, vs).ab
    if options is not None:
        if ab or vs is not None:
            raise UsageError("--options excludes --ab and --vs", hint="arms differ in one thing: two runs")
        parsed = parse_options(options)
    flags = runtime_flags(registry, sets, without=None if parsed is None else parsed.name)
    patterns = (*(kernels or ()), *(variant or ()))
    words = [*patterns, *(["--suite", suite] if suite is not None else [])]
    drawn = {} if seed is None else {"seed": str(seed)}
    keys = {"seq": seq, "batch": batch}
    if ragged is not None:
        keys = {"ragged": ragged, **drawn, "batch": batch}
    elif seq_lens is not None:
        keys = {"seq_lens": seq_lens}
    shape = {**keys, "heads": heads, "head_dim": head_dim, "dtype": dtype, "page_size": page_size}
    for name, text in shape.items():
        if text is not None and (suite is None or name in axes_given):  # given, it narrows a suite
            words += [f"--{name.replace('_', '-')}", text]
    words += ["--no-equal"] if no_equal else []
    words += ["--prefill"] if prefill else []
    words += ["--qo-len", qo_len] if qo_len != "1" or (suite is not None and "qo_len" in axes_given) else []
    words += ["--causal"] if causal else []
    words += ["--num-splits", str(num_splits)] if num_splits is not None else []
    words += ["--l2", l2] if suite is None or "l2" in axes_given else []
    words += ["--peers", peers, "--budget", f"{budget:g}", "--profile", profile]
    words += ["--ab", ab[0]] if ab else []
    words += ["--vs", vs] if vs is not None else []
    words += ["--options", options] if options is not None else []
    words += [word for name, values in axes.items() for word in ("--where", f"{name}={','.join(values)}")]
    words += [word for name, value in {**sets, **flags}.items() for word in ("--set", f"{name}={value}")]
    request = BenchRequest(
        cases=cases,
        patterns=patterns,
        where=axes,
        peers=_peers(peers),
        budget_s=budget,
        profile=profile,
        sets={name: value for name, value in sets.items() if name not in flags},
        flags=flags,
        pages_given=page_size is not None or (suite is not None and any(case.page_size for case in cases)),
        by_suite=suite is not None,
        ab=parsed,
        vs=vs,
        command=shlex.join(["sparkctl", "bench", *words]),
    )
    output = prepare(ctx, output, plot, baseline, ab=parsed is not None)
    _measure_and_show(ctx, request, output, save=save)


def _is_given(ctx: typer.Context, parameter: str) -> bool:
    source = ctx.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"


def _peers(text: str) -> tuple[str, ...]:
    from sparkctl.bench.peers import check_peers
    from sparkctl.bench.sizes import parse_list

    return () if text.strip() == "none" else check_peers(parse_list(text, str.strip, option="--peers"))


def _refuse_what_an_estimate_ignores(ctx: typer.Context) -> None:
    given = [shown for name, shown in MEASURED_ONLY.items() if _is_given(ctx, name)]
    if given:
        raise UsageError(
            f"--estimate takes no {', no '.join(given)}: a floor follows from the case and the GPU alone",
            hint="leave out --estimate to measure",
        )


def _show_estimates(ctx: typer.Context, cases: tuple[DecodeCase, ...], name: str, *, json: bool, other: bool) -> None:
    from sparkctl.bench.estimate import estimate_decode
    from sparkctl.bench.gpus import find_gpu
    from sparkctl.registry import find_project, load_registry
    from sparkctl.render.build_progress import ConsoleProgress
    from sparkctl.render.console import print_json, stderr_console, stdout_console
    from sparkctl.render.estimate import estimate_record, print_estimates
    from sparkctl.workflows.bench_plan import plan_bench
    from sparkctl.workflows.bench_request import BenchRequest
    from sparkctl.workflows.launch_estimate import estimate_launches

    if other:
        raise UsageError("--estimate prints a table or --json")
    gpu = find_gpu(name)
    registry = load_registry(find_project(cli_context(ctx).project))
    cli = cli_context(ctx)
    # No floor for a case that no kernel takes.
    plan = plan_bench(registry, BenchRequest(cases, pages_given=True), gpu.arch)
    estimates = [estimate_decode(case, gpu) for case in cases]
    progress = ConsoleProgress(stderr_console(cli), quiet=cli.verbosity < 0)
    launches = estimate_launches(registry, plan, gpu, progress=progress)
    if json:
        print_json(estimate_record(estimates, launches))
    else:
        print_estimates(stdout_console(cli), estimates, launches)


def _measure_and_show(ctx: typer.Context, request: BenchRequest, output: Output, *, save: str | None) -> None:
    from sparkctl.bench.record import result_path
    from sparkctl.render.bench_progress import CaseProgress
    from sparkctl.render.build_progress import ConsoleProgress
    from sparkctl.render.console import stderr_console
    from sparkctl.workflows.bench import find_faults, judge_run, keep_run, run_bench

    cli = cli_context(ctx)
    registry = load_project(cli)
    if save is not None:
        result_path(save, "any", registry.root)  # a bad name must not cost a run
    stderr, quiet = stderr_console(cli), cli.verbosity < 0
    cases = CaseProgress(stderr, quiet=quiet)
    try:
        run = run_bench(registry, request, at_case=cases.at, build_progress=ConsoleProgress(stderr, quiet=quiet))
    finally:
        cases.stop()
    faults = find_faults(run)
    if not faults:
        remember(ctx, run)
    show_run(ctx, run, output)
    if save is not None and run.rows and not faults:
        path = keep_run(run, save, registry.root)
        stderr.print(f"saved to {path}", soft_wrap=True)
    if run.interrupted:
        raise KeyboardInterrupt
    if error := judge_run(run, listed=bool(run.rows) and not (output.json or output.csv)):
        raise error
