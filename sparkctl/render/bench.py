"""Benchmark rows as a table, Markdown and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from sparkctl.bench.axes import DecodeCase
from sparkctl.bench.gpus import match_gpu
from sparkctl.bench.results import Row, Run, Series, Stamp
from sparkctl.bench.statistics import StopRule
from sparkctl.render.bench_ending import ending_notes
from sparkctl.render.bench_rows import CSV_RUN, csv_run_values, repeat_lines

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDE = 110  # columns from which the peers' own times and the ceiling have room
NOTHING = "–"


def print_run(console: Console, run: Run) -> None:
    """A table per variant, what is odd about the rows, then where and how they were measured."""
    from sparkctl.render.bench_peers import peer_cells, peers_beside

    variants = dict.fromkeys(row.variant for row in run.rows)
    for variant in variants:
        rows = [row for row in run.rows if row.variant == variant]
        beside = peers_beside(line_rows(rows))
        console.print(f"{variant}, {shared_facts(rows)}", style="bold")
        console.print(aligned_table(run_cells(rows, run, wide=console.width >= WIDE, peers=beside)))
        console.print()
        if not beside:
            console.print(aligned_table(peer_cells(line_rows(rows)), left=("case", "library")))
            console.print()
    for note in (*row_notes(run.rows), *ending_notes(run)):
        console.print(note)
    print_facts(console, run)


def print_facts(console: Console, run: Run) -> None:
    """Where and how it was measured."""
    from rich.table import Table

    facts = Table.grid(padding=(0, 2, 0, 0))
    for label, text in (*environment_lines(run), ("repeat", run.command)):
        facts.add_row(label, text)
    console.print(facts)


def aligned_table(
    cells: Sequence[Sequence[str]], left: Sequence[str] = ("variant", "case"), whole: Sequence[str] = ()
) -> Table:
    """The first line is the header; columns not in `left` are numbers, those in `whole` are never folded."""
    from rich.table import Table

    header, *lines = cells
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in header:
        side: Literal["left", "right"] = "left" if title in left else "right"
        table.add_column(title, justify=side, vertical="bottom", overflow="fold", no_wrap=title in whole)
    for line in lines:
        table.add_row(*line)
    return table


def shared_facts(rows: Sequence[Row]) -> str:
    """What the cases of all rows have in common."""
    cases = [row.case for row in line_rows(rows)]
    case, varying = cases[0], varying_axes(cases)
    parts = [] if "heads" in varying else [f"{case.heads} heads"]
    parts += [f"pages of {case.page_size}"] if case.page_size is not None and "page_size" not in varying else []
    parts += ["prefill"] if case.prefill else []
    parts += [f"qo_len {case.qo_len}"] if _qo_len(case) is not None and "qo_len" not in varying else []
    parts += ["causal"] if case.causal and "causal" not in varying else []
    parts += [] if "l2" in varying else [f"{case.l2} L2"]
    return ", ".join(parts) + "; case: batch × kv_len"


def line_rows(rows: Sequence[Row]) -> list[Row]:
    """Those that have a line of their own: a hot L2 beside a cold one is a column."""
    cold = {(row.variant, row.case) for row in rows if row.case.l2 == "cold"}
    return [row for row in rows if row.case.l2 == "cold" or (row.variant, replace(row.case, l2="cold")) not in cold]


def run_cells(rows: Sequence[Row], run: Run, *, wide: bool, peers: bool = True) -> list[list[str]]:
    """The header, its words on lines of their own, and a line of text per row of `line_rows`; peers that ran."""
    from sparkctl.render.bench_peers import peer_columns

    lines = line_rows(rows)
    columns = [*_run_columns(lines, run, wide=wide), *(peer_columns(lines, wide=wide) if peers else ())]
    return [[title for title, _ in columns], *(list(line) for line in zip(*(c for _, c in columns), strict=True))]


def _run_columns(rows: Sequence[Row], run: Run, *, wide: bool) -> list[tuple[str, list[str]]]:
    gpu, gemm = match_gpu(run.environment.gpu), run.environment.gemm
    varying = varying_axes([row.case for row in rows])
    columns = [
        ("case", [case_text(row.case, varying) + (" !" if row.series.throttled else "") for row in rows]),
        ("time\nµs", [format_us(row.series.median_us) for row in rows]),
        ("noise\n%", [f"{row.series.noise * 100:.1f}" for row in rows]),
        ("TB/s", [f"{row.tbps:.2f}" for row in rows]),
        ("% of\nceiling", [f"{row.ceiling_share * 100:.0f}" for row in rows]),
        ("% of\npeak", [_percent(row.peak_share(gpu)) for row in rows]),
        ("splits", [str(row.num_splits) for row in rows]),
        ("eager\nµs", [format_us(row.eager.median_us) for row in rows]),
    ]
    columns += _hot_column(rows, run)
    columns += _equal_column(rows, run)
    if any(row.is_compute_bound(gemm) for row in rows):
        columns.insert(6, ("% of\nGEMM", [_percent(row.gemm_share(gemm)) for row in rows]))
        columns.insert(6, ("TFLOP/s", [f"{row.tflops:.0f}" for row in rows]))
    if wide:
        columns.insert(6, ("ceiling\nTB/s", [f"{row.ceiling.tbps:.2f}" for row in rows]))
        columns.insert(3, ("samples", [str(len(row.series.samples)) for row in rows]))
    return columns


def _hot_column(rows: Sequence[Row], run: Run) -> list[tuple[str, list[str]]]:
    """Times over data that lie in L2, where they were measured beside those of the rows."""
    hot = {(row.variant, row.case): row.series.median_us for row in run.rows if row.case.l2 == "hot"}
    keys = [(row.variant, replace(row.case, l2="hot")) for row in rows if row.case.l2 == "cold"]
    if not any(key in hot for key in keys):
        return []
    times = [hot.get((row.variant, replace(row.case, l2="hot"))) if row.case.l2 == "cold" else None for row in rows]
    return [("hot L2\nµs", [NOTHING if time is None else format_us(time) for time in times])]


def _equal_column(rows: Sequence[Row], run: Run) -> list[tuple[str, list[str]]]:
    """What several lengths cost, where there are some."""
    if all(row.case.kv_lens is None for row in rows):
        return []
    ratios = [run.over_equal(row) for row in rows]
    return [("ragged /\nequal", [NOTHING if ratio is None else f"{ratio:.2f}" for ratio in ratios])]


def _percent(share: float | None) -> str:
    return NOTHING if share is None else f"{share * 100:.0f}"


def varying_axes(cases: Sequence[DecodeCase]) -> tuple[str, ...]:
    """Axes, besides batch and kv_len and what a variant's name says, on which the cases differ."""
    axes = ("heads", "page_size", "causal", "l2")
    found = [axis for axis in axes if len({getattr(case, axis) for case in cases}) > 1]
    return (*found, *(["qo_len"] if len({_qo_len(case) for case in cases}) > 1 else []))


def _qo_len(case: DecodeCase) -> int | None:
    """None where it is what one expects: 1, and kv_len of prefill."""
    return None if case.qo_len == (case.kv_len if case.prefill else 1) else case.qo_len


def case_text(case: DecodeCase, varying: Sequence[str]) -> str:
    """`8 × 16k`, with what varies behind it."""
    texts = {
        "heads": str(case.heads),
        "head_dim": f"d{case.head_dim}",
        "dtype": case.dtype,
        "l2": f"{case.l2} L2",
        "qo_len": f"qo_len {case.qo_len}",
        "causal": "causal" if case.causal else "full",
        "page_size": "contiguous" if case.page_size is None else f"page {case.page_size}",
    }
    return ", ".join([case.shape, *(text for axis, text in texts.items() if axis in varying)])


def row_notes(rows: Sequence[Row]) -> list[str]:
    """How the ratios are meant, and what a reader must know to trust or doubt a row."""
    notes: list[str] = []
    if any(peer.series for row in rows for peer in row.peers):
        notes.append("× is the peer's time over ours: above 1 ours is faster.")
    if any(row.case.kv_lens is not None for row in rows):
        notes.append("ragged / equal is the time over that of as many keys in sequences of one length.")
    for row in rows:
        notes += sampling_notes(row)
    return [*notes, *absent_notes(rows)]


def absent_notes(rows: Sequence[Row]) -> list[str]:
    """Why a peer did not run, once for each reason."""
    notes: list[str] = []
    absent: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for peer in row.peers:
            if peer.series is None:
                absent.setdefault((peer.name, peer.reason or "no reason given"), []).append(row.case.label)
    for (name, reason), labels in absent.items():
        where = "" if len(labels) == len(rows) else " on " + "; ".join(dict.fromkeys(labels))
        notes.append(f"{name} did not run{where}: {reason}")
    return notes


def sampling_notes(row: Row) -> list[str]:
    """Throttled samples, and why sampling stopped if not for precision."""
    series, label, notes = row.series, ", ".join(filter(None, (row.case.label, row.arm))), []
    if series.all_throttled:
        notes.append(f"! {label}: every sample was throttled ({_reasons(row)}); the numbers are those.")
    elif series.throttled:
        taken = len(series.samples)
        notes.append(f"! {label}: {series.throttled} of {taken} samples throttled ({_reasons(row)}), left out.")
    if series.stop != "precise" and series.all_throttled:
        notes.append(f"{label}: stopped by {_stopped_by(series)} after {len(series.samples)} samples.")
    elif series.stop != "precise":
        interval = series.interval_us
        width = (interval.high - interval.low) / series.median_us
        notes.append(
            f"{label}: stopped by {_stopped_by(series)} after {len(series.samples)} samples; the median's 95 % "
            f"interval is {width:.1%} wide, wanted {StopRule().relative_width:.1%}."
        )
    return notes


def _stopped_by(series: Series) -> str:
    return "the budget" if series.stop == "budget" else "the number of samples"


def _reasons(row: Row) -> str:
    return ", ".join(dict.fromkeys(reason for sample in row.series.samples for reason in sample.throttle))


def environment_lines(run: Run) -> list[tuple[str, str]]:
    """Device, software, revision: each with its label."""
    env, clocks = run.environment, run.clocks_mhz
    if clocks is None:
        clock_text = env.clocks_missing or "clocks not read"
    else:
        clock_text = "SM at " + "–".join(str(clock) for clock in dict.fromkeys(clocks)) + " MHz"
    spec = match_gpu(env.gpu)
    peak = "peak unknown" if spec is None else f"peak {spec.bandwidth_tbps:g} TB/s ({spec.source})"
    flags = "".join(f", {name}={value}" for name, value in env.flags)
    return [
        ("device", f"{env.gpu}, {env.arch}, {env.sm_count} SMs, {env.l2_bytes / 2**20:g} MiB L2, {peak}, {clock_text}"),
        (
            "software",
            f"driver {env.driver or 'unknown'}, CUDA {env.cuda or 'unknown'}, torch {env.torch}, "
            f"cuDNN {env.cudnn or 'none'}, {env.compiler}",
        ),
        *_ceiling_lines(run),
        ("revision", f"sparkctl {env.sparkctl}, {stamp_text(env.stamp)}, profile {env.profile}{flags}"),
    ]


def _ceiling_lines(run: Run) -> list[tuple[str, str]]:
    """The GEMM rate of the run, and the rule by which rows were sampled."""
    lines: list[tuple[str, str]] = []
    if (gemm := run.environment.gemm) is not None:
        calm = "" if not gemm.series.throttled else f", {gemm.series.throttled} of {len(gemm.series.samples)} throttled"
        product = f"{gemm.size}³ in {gemm.dtype}, {len(gemm.series.samples)} samples{calm}"
        lines.append(("GEMM", f"{gemm.tflops:.0f} TFLOP/s measured ({product})"))
    elif run.environment.gemm_missing is not None:
        lines.append(("GEMM", f"not measured: {run.environment.gemm_missing}"))
    if run.sampling is not None:
        rule = run.sampling.rule
        text = (
            f"at least {rule.min_samples}, until the median's 95 % interval is at most {rule.relative_width:.1%} wide, "
            f"{run.sampling.budget_s:g} s or {rule.max_samples} samples"
        )
        lines.append(("samples", text))
    return lines


def stamp_text(stamp: Stamp) -> str:
    """`commit 0123456789ab, dirty`."""
    if stamp.commit is None:
        return "no commit known"
    state = {True: ", dirty", False: "", None: ", unknown whether dirty"}[stamp.dirty]
    return f"commit {stamp.commit}{state}"


def format_us(time_us: float) -> str:
    """Four significant digits or so: 18.34, 120.4, 1234."""
    return f"{time_us:.2f}" if time_us < 100 else f"{time_us:.1f}" if time_us < 1000 else f"{time_us:.0f}"


def run_markdown(run: Run) -> str:
    """For a pull request."""
    facts = [*row_notes(run.rows), *ending_notes(run), *(f"{label}: {text}" for label, text in environment_lines(run))]
    facts.append(f"repeat: `{run.command}`")
    header, *lines = run_cells(run.rows, run, wide=True)
    rows = line_rows(run.rows)
    named = [["variant", *header], *([f"`{row.variant}`", *line] for row, line in zip(rows, lines, strict=True))]
    table = [shared_facts(run.rows), "", *markdown_table(named), ""]
    return "\n".join([*table, *(f"- {fact}" for fact in facts), *repeat_lines(run)])


def markdown_table(cells: Sequence[Sequence[str]], left: Sequence[str] = ("variant", "case")) -> list[str]:
    """Its lines; columns not in `left` are numbers."""
    header, *lines = ([" ".join(cell.split("\n")) for cell in line] for line in cells)
    ruler = ["---" if title in left else "---:" for title in header]
    return ["| " + " | ".join(line) + " |" for line in (header, ruler, *lines)]


CSV_CASE = (
    "batch",
    "kv_len",
    "num_qo_heads",
    "num_kv_heads",
    "head_dim",
    "dtype",
    "qo_len",
    "causal",
    "l2",
    "page_size",
    "kv_lens",
    "operator",
)
CSV_TIME = ("time_us", "low_us", "high_us", "noise", "samples", "stop", "throttled", "eager_us")
CSV_RATES = ("tbps", "ceiling_tbps", "ceiling_share", "peak_share", "tflops", "gemm_share", "over_equal")
CSV_FIELDS = ("variant", *CSV_CASE, "num_splits", *CSV_TIME, *CSV_RATES, *CSV_RUN)


def run_csv(run: Run, more: Sequence[Sequence[Any]] = ()) -> str:
    """One line per row; shares are fractions of 1, an empty field is a number that does not exist.

    `more`: a header, then as many further values for each row.
    """
    peers = list(dict.fromkeys(peer.name for row in run.rows for peer in row.peers))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*CSV_FIELDS, *(f"{name} us" for name in peers), *(more[0] if more else ())])
    for index, row in enumerate(run.rows, 1):
        times = {peer.name: peer.series.median_us for peer in row.peers if peer.series is not None}
        values = [*_csv_values(row, run), *(times.get(name, "") for name in peers)]
        writer.writerow([*values, *(more[index] if more else ())])
    return text.getvalue().rstrip("\n")


def csv_case(case: DecodeCase) -> list[Any]:
    """The values of CSV_CASE."""
    heads = case.heads
    shape = [case.batch, case.kv_len, heads.num_qo_heads, heads.num_kv_heads, case.head_dim, case.dtype, case.qo_len]
    lengths = "" if case.kv_lens is None else " ".join(map(str, case.kv_lens))
    return [*shape, int(case.causal), case.l2, "" if case.page_size is None else case.page_size, lengths, case.operator]


def _csv_values(row: Row, run: Run) -> list[Any]:
    series, interval = row.series, row.series.interval_us
    peak, gemm = row.peak_share(match_gpu(run.environment.gpu)), row.gemm_share(run.environment.gemm)
    over_equal = run.over_equal(row)
    return [
        row.variant,
        *csv_case(row.case),
        row.num_splits,
        series.median_us,
        interval.low,
        interval.high,
        series.noise,
        len(series.samples),
        series.stop,
        series.throttled,
        row.eager.median_us,
        row.tbps,
        row.ceiling.tbps,
        row.ceiling_share,
        "" if peak is None else peak,
        row.tflops,
        "" if gemm is None else gemm,
        "" if over_equal is None else over_equal,
        *csv_run_values(row, run),
    ]
