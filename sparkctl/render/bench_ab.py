"""Arms held against each other: as tables, Markdown and CSV."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, get_args

from sparkctl.bench.ab import (
    INDIFFERENT,
    OPTIONS,
    RATIO_CONFIDENCE,
    SAME_WITHIN,
    Comparison,
    Judgement,
    geometric_mean,
    group_comparisons,
)
from sparkctl.bench.results import Run
from sparkctl.render.bench import (
    CSV_CASE,
    WIDE,
    absent_notes,
    aligned_table,
    case_text,
    csv_case,
    environment_lines,
    format_us,
    markdown_table,
    print_facts,
    sampling_notes,
    shared_facts,
    varying_axes,
)
from sparkctl.render.bench_ending import ending_notes
from sparkctl.render.bench_peers import peer_columns
from sparkctl.render.bench_rows import CSV_RUN, csv_run_values, repeat_lines

if TYPE_CHECKING:
    from rich.console import Console

LEFT = ("case", "outputs")
WHOLE = ("interval", "ratio", "verdict")
LONG_LABEL = 11  # columns; beyond, a header breaks at the equals sign


def print_comparisons(console: Console, run: Run) -> None:
    """A table for each kernel and later arm with the geometric mean below it, then notes and facts."""
    for group in group_comparisons(run.comparisons):
        console.print(heading(group), style="bold")
        console.print(aligned_table(comparison_cells(group, wide=console.width >= WIDE), left=LEFT, whole=WHOLE))
        console.print(summary(group))
        console.print()
    for note in comparison_notes(run):
        console.print(note)
    print_facts(console, run)


def heading(group: Sequence[Comparison]) -> str:
    """`attn_decode_split_kv_mma: stages=2 against stages=1, 32/8 heads, …`."""
    first, rows = group[0], [one.other for one in group]
    varying = _varying(group)
    axes = [("dtype", first.other.case.dtype), ("head_dim", f"d{first.other.case.head_dim}")]
    shape = "".join(f"{text}, " for axis, text in axes if axis not in varying)
    return f"{first.other.kernel}: {first.other.arm} against {first.base.arm}, {shape}{shared_facts(rows)}"


def comparison_cells(group: Sequence[Comparison], *, wide: bool) -> list[list[str]]:
    """The header, its words on lines of their own, and one line of text per case."""
    columns = _columns(group, wide=wide)
    return [[title for title, _ in columns], *(list(line) for line in zip(*(c for _, c in columns), strict=True))]


def _columns(group: Sequence[Comparison], *, wide: bool) -> list[tuple[str, list[str]]]:
    base, other, varying = group[0].base.arm, group[0].other.arm, _varying(group)
    columns: list[tuple[str, list[str]]] = [
        ("case", [case_text(one.other.case, varying) + _mark(one) for one in group]),
        (_head(base, "µs"), [format_us(one.base.series.median_us) for one in group]),
        (_head(other, "µs"), [format_us(one.other.series.median_us) for one in group]),
        ("ratio", [f"{one.ratio:.3f}" for one in group]),
        ("interval", [f"{one.interval.low:.3f}–{one.interval.high:.3f}" for one in group]),
        ("verdict", [str(one.verdict) for one in group]),
        ("splits", [_splits(one) for one in group]),
        ("outputs", [str(one.bits) if wide or one.bits.equal else f"{one.bits.differing} differ" for one in group]),
    ]
    if wide:
        columns[3:3] = [("rounds", [str(len(one.ratios)) for one in group])]
        columns[3:3] = [(_head(other, "% of ceiling"), [f"{one.other.ceiling_share * 100:.0f}" for one in group])]
        noises = [f"{one.base.series.noise * 100:.1f} {one.other.series.noise * 100:.1f}" for one in group]
        columns[3:3] = [("noise\n%", noises)]
    columns[-1:-1] = peer_columns([one.other for one in group], wide=False)
    return columns


def _head(label: str, unit: str) -> str:
    return f"{label if len(label) <= LONG_LABEL else label.replace('=', chr(10) + '=')}\n{unit}"


def _varying(group: Sequence[Comparison]) -> tuple[str, ...]:
    cases = [one.other.case for one in group]
    named = tuple(axis for axis in ("head_dim", "dtype") if len({getattr(case, axis) for case in cases}) > 1)
    return (*varying_axes(cases), *named)


def _mark(one: Comparison) -> str:
    return " !" if one.base.series.throttled or one.other.series.throttled else ""


def _splits(one: Comparison) -> str:
    return ", ".join(dict.fromkeys((str(one.base.num_splits), str(one.other.num_splits))))


def summary(group: Sequence[Comparison]) -> str:
    """`geometric mean of 4 ratios 1.213, from 1.190 to 1.270; 4 faster; all bits equal`."""
    ratios = [one.ratio for one in group]
    counts = Counter(one.verdict for one in group)
    verdicts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in get_args(Judgement) if counts[verdict])
    unequal = sum(not one.bits.equal for one in group)
    largest = max(one.bits.largest for one in group)
    bits = f"bits differ in {unequal} of {len(group)} cases, by up to {largest:.2g}" if unequal else "all bits equal"
    spread = f", from {min(ratios):.3f} to {max(ratios):.3f}" if len(ratios) > 1 else ""
    cases = f"{len(ratios)} ratio{'s' if len(ratios) > 1 else ''}"
    return f"geometric mean of {cases}: {geometric_mean(ratios):.3f}{spread}; {verdicts}; {bits}"


def comparison_notes(run: Run) -> list[str]:
    """What ratio and verdict mean, and what a reader must know to trust or doubt a row."""
    first = run.comparisons[0].base.arm
    notes = [
        f"ratio: the time of {first} over the other's, round by round: above 1 the other is faster. interval: of the "
        f"ratio's median, at {RATIO_CONFIDENCE:.1%}. faster, slower: all of it is more than {INDIFFERENT:.1%} from 1; "
        f"same: within {SAME_WITHIN:.0%}."
    ]
    if any(peer.series for row in run.rows for peer in row.peers):
        notes.append("× is the peer's time over the second arm's.")
    if run.ab is not None and run.ab.name == OPTIONS:
        notes.append("outputs: a window, a soft-cap and sinks change what is computed, and with it the bits.")
    for row in run.rows:
        notes += sampling_notes(row)
    return [*notes, *absent_notes(run.rows), *ending_notes(run)]


def comparisons_markdown(run: Run) -> str:
    """For a pull request."""
    facts = [*comparison_notes(run), *(f"{label}: {text}" for label, text in environment_lines(run))]
    facts.append(f"repeat: `{run.command}`")
    blocks: list[str] = []
    for group in group_comparisons(run.comparisons):
        table = markdown_table(comparison_cells(group, wide=True), left=LEFT)
        blocks += [heading(group), "", *table, "", summary(group), ""]
    return "\n".join([*blocks, *(f"- {fact}" for fact in facts), *repeat_lines(run)])


CSV_ARMS = ("base", "arm", "base_variant", "variant", "base_splits", "splits")
CSV_TIMES = ("base_us", "time_us", "base_noise", "noise", "samples")
CSV_RATIO = ("ratio", "ratio_low", "ratio_high", "rounds", "verdict", "differing", "elements", "largest_difference")


def comparisons_csv(run: Run) -> str:
    """One line per case and later arm."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["kernel", *CSV_CASE, *CSV_ARMS, *CSV_TIMES, *CSV_RATIO, *CSV_RUN])
    writer.writerows(_csv_lines(run))
    return text.getvalue().rstrip("\n")


def _csv_lines(run: Run) -> Iterator[list[object]]:
    for one in run.comparisons:
        base, other, interval, bits = one.base, one.other, one.interval, one.bits
        arms = [base.arm, other.arm, base.variant, other.variant, base.num_splits, other.num_splits]
        ratio = [one.ratio, interval.low, interval.high, len(one.ratios), one.verdict]
        times = [base.series.median_us, other.series.median_us, base.series.noise, other.series.noise]
        yield [
            *(other.kernel, *csv_case(other.case), *arms, *times, len(other.series.samples), *ratio),
            *(bits.differing, bits.total, bits.largest),
            *csv_run_values(other, run),
        ]
