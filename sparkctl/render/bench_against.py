"""A run held against a saved one: as a table, Markdown, CSV fields and JSON."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, get_args

from sparkctl.bench.ab import RATIO_CONFIDENCE, SAME_WITHIN, Judgement
from sparkctl.bench.against import INDIFFERENT_APART, Against, Baseline
from sparkctl.bench.record import case_record
from sparkctl.render.bench import NOTHING, aligned_table, case_text, format_us, markdown_table, stamp_text, varying_axes

if TYPE_CHECKING:
    from rich.console import Console

LEFT = ("case", "variant")
CSV_BASELINE = ("baseline_us", "baseline_ratio", "baseline_low", "baseline_high", "baseline_verdict")


def print_baseline(console: Console, baseline: Baseline) -> None:
    """A table, then what it means."""
    console.print(f"\n{baseline_heading(baseline)}", style="bold")
    console.print(aligned_table(baseline_cells(baseline), left=LEFT, whole=("interval", "verdict")))
    for note in baseline_notes(baseline):
        console.print(note)


def baseline_heading(baseline: Baseline) -> str:
    """`against decode.json: commit …, measured …`."""
    run = baseline.run
    return f"against {baseline.source}: {stamp_text(run.environment.stamp)}, measured {run.started}"


def baseline_cells(baseline: Baseline) -> list[list[str]]:
    """The header and a line of text for each row."""
    cases = [one.row.case for one in baseline.rows]
    named = [axis for axis in ("head_dim", "dtype") if len({getattr(case, axis) for case in cases}) > 1]
    varying = (*varying_axes(cases), *named)
    several = len({one.row.variant for one in baseline.rows}) > 1
    header = ["case", "baseline\nµs", "now\nµs", "ratio", "interval", "verdict"]
    lines = [[_case(one, varying), *_numbers(one)] for one in baseline.rows]
    if several:
        header = ["variant", *header]
        lines = [[one.row.variant, *line] for one, line in zip(baseline.rows, lines, strict=True)]
    return [header, *lines]


def _case(one: Against, varying: tuple[str, ...]) -> str:
    return " ".join(filter(None, (case_text(one.row.case, varying), one.row.arm)))


def _numbers(one: Against) -> list[str]:
    ours, ratio, interval = format_us(one.row.series.median_us), one.ratio, one.interval
    if one.base is None or ratio is None or interval is None:
        return [NOTHING, ours, NOTHING, NOTHING, NOTHING]
    span = f"{interval.low:.3f}–{interval.high:.3f}"
    return [format_us(one.base.series.median_us), ours, f"{ratio:.3f}", span, one.verdict or NOTHING]


def baseline_notes(baseline: Baseline) -> list[str]:
    """What the numbers mean, and what differs besides the code."""
    counts = Counter(one.verdict for one in baseline.rows)
    verdicts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in get_args(Judgement) if counts[verdict])
    notes = [verdicts] if verdicts else []
    notes.append(
        "ratio: the baseline's time over this run's: above 1 this run is faster. Not interleaved: the two were "
        "measured at different times, so clocks and temperature are in the ratio; --ab decides small differences. "
        f"interval: from both medians' intervals at {RATIO_CONFIDENCE:.1%}; faster, slower: all of it is more than "
        f"{INDIFFERENT_APART:.0%} from 1; same: within {SAME_WITHIN:.0%}."
    )
    if not baseline.comparable:
        notes.append("The GPUs differ: there are no verdicts.")
    notes += [f"differs: {text}" for text in baseline.differences]
    for one in baseline.rows:
        if one.base is not None and one.base.variant != one.row.variant:
            notes.append(f"{one.row.case.label}: {one.row.variant} now, {one.base.variant} in the baseline")
    missing = [one.row.case.label for one in baseline.rows if one.base is None]
    notes += [f"not in the baseline: {'; '.join(missing)}"] if missing else []
    notes += [f"{baseline.left_out} rows of the baseline were not measured now"] if baseline.left_out else []
    return notes


def baseline_markdown(baseline: Baseline) -> list[str]:
    """Lines below those of the run."""
    table = markdown_table(baseline_cells(baseline), left=LEFT)
    return ["", f"{baseline_heading(baseline)}:", "", *table, "", *(f"- {note}" for note in baseline_notes(baseline))]


def csv_baseline_values(one: Against) -> list[Any]:
    """The values of CSV_BASELINE."""
    if one.base is None or one.interval is None:
        return [""] * len(CSV_BASELINE)
    return [one.base.series.median_us, one.ratio, one.interval.low, one.interval.high, one.verdict or ""]


def baseline_record(baseline: Baseline) -> dict[str, Any]:
    """JSON-ready, as docs/bench.schema.json has it."""
    env = baseline.run.environment
    return {
        "source": baseline.source,
        "gpu": env.gpu,
        "driver": env.driver,
        "commit": env.stamp.commit,
        "started": baseline.run.started,
        "interleaved": False,
        "comparable": baseline.comparable,
        "differences": list(baseline.differences),
        "rows": [_record(one) for one in baseline.rows],
    }


def _record(one: Against) -> dict[str, Any]:
    interval = one.interval
    return {
        "case": case_record(one.row.case),
        "variant": one.row.variant,
        "arm": one.row.arm,
        "baseline_variant": None if one.base is None else one.base.variant,
        "baseline_us": None if one.base is None else one.base.series.median_us,
        "time_us": one.row.series.median_us,
        "ratio": one.ratio,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "verdict": one.verdict,
    }
