"""Pictures of runs and of their history, drawn by matplotlib, which is optional."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkctl.bench.axes import DecodeCase
from sparkctl.bench.gpus import match_gpu
from sparkctl.bench.results import Row, Run
from sparkctl.bench.sizes import format_size
from sparkctl.errors import MissingTool, UsageError

if TYPE_CHECKING:
    from sparkctl.bench.history import Entry

# Optional, and typed in part: as import_module gives it, it is checked alike with and without.
Axes = Any
Figure = Any

FORMATS = (".png", ".svg")
# Okabe and Ito's colours: told apart by people with any colour vision.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999933")
MARKERS = "osD^vP*X"
DOTS_PER_INCH = 150


def check_plot_path(path: Path) -> None:
    """Before anything is measured: UsageError for a file that could not be written, MissingTool without matplotlib."""
    if path.suffix.lower() not in FORMATS:
        raise UsageError(
            f"--plot {path}: {f'unknown extension {path.suffix!r}' if path.suffix else 'no extension'}",
            hint="a file that ends in .png or .svg",
        )
    folder = path.absolute().parent
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        problem = "a folder" if path.is_dir() else f"no folder {folder}" if not folder.is_dir() else "cannot be written"
        raise UsageError(f"--plot {path}: {problem}", hint="a file in a folder that is there and can be written")
    if find_spec("matplotlib") is None:
        hint = "pip install 'sparkctl[plot]', or 'matplotlib>=3.10'"
        raise MissingTool("--plot needs matplotlib, which is not installed", hint=hint)


def plot_run(run: Run, path: Path) -> None:
    """A roofline and how bandwidth grows with the case."""
    figure, (left, right) = _figure(2)
    _draw_roofline(left, run)
    _draw_scaling(right, run)
    env = run.environment
    commit = env.stamp.commit or "no commit known"
    dirty = ", dirty" if env.stamp.dirty else ""
    _title(figure, f"{env.gpu}, driver {env.driver}, commit {commit}{dirty}, {run.started[:16].replace('T', ' ')} UTC")
    figure.text(0.5, 0.012, run.command, ha="center", fontsize=6, color="#555555", wrap=True)
    _save(figure, path)


def plot_history(entries: Sequence[Entry], title: str, path: Path) -> None:
    """Time over date, a line for each case."""
    figure, (axes,) = _figure(1)
    for index, line in enumerate(dict.fromkeys(entry.line for entry in entries)):
        own = [entry for entry in entries if entry.line == line]
        first, last = own[0].time_us, own[-1].time_us
        dates = [datetime.fromisoformat(entry.started) for entry in own]
        spread = [
            [(e.time_us - e.low_us) / first * 100 for e in own],
            [(e.high_us - e.time_us) / first * 100 for e in own],
        ]
        shares = [entry.time_us / first * 100 for entry in own]
        axes.errorbar(dates, shares, yerr=spread, label=f"{line}: {last:.4g} µs", capsize=2, **_style(index))
    axes.axhline(100, color="#555555", linewidth=0.8)
    axes.set_ylabel("time of a call, % of the first run's")
    axes.tick_params(axis="x", labelrotation=20)
    axes.set_title("bars: 95 % interval of the median; the time is the last run's", fontsize=10)
    axes.grid(which="major", color="#dddddd", linewidth=0.6)
    figure.legend(loc="outside lower center", fontsize=7)
    _title(figure, title)
    _save(figure, path)


def _figure(panels: int) -> tuple[Figure, Sequence[Axes]]:
    figure = import_module("matplotlib.figure").Figure(
        figsize=(6.5 * max(panels, 1.4), 5.4), dpi=DOTS_PER_INCH, layout="constrained"
    )
    import_module("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    axes = figure.subplots(1, panels, squeeze=False)[0]
    figure.get_layout_engine().set(rect=(0, 0.04, 1, 0.94))
    return figure, list(axes)


def _draw_roofline(axes: Axes, run: Run) -> None:
    """TFLOP/s over FLOP per byte: the measured read ceiling, the data sheet's limits, and every row below them."""
    gpu = match_gpu(run.environment.gpu)
    intensities = [row.traffic.flops / row.traffic.bytes for row in run.rows]
    ceiling = max(row.ceiling.tbps for row in run.rows)
    low, high = min(intensities) / 4, max(intensities) * 8
    if gpu is not None:
        high = max(high, 2.5 * gpu.bf16_tflops / gpu.bandwidth_tbps)
        _roof(axes, low, high, gpu.bandwidth_tbps, gpu.bf16_tflops, "data sheet", "#888888", "--")
    gemm = run.environment.gemm
    flat = gemm.tflops if gemm is not None else math.inf if gpu is None else gpu.bf16_tflops
    product = "" if gemm is None else f", GEMM {gemm.tflops:.0f} TFLOP/s"
    _roof(axes, low, high, ceiling, flat, f"measured read ceiling, {ceiling:.2f} TB/s{product}", "#000000", "-")
    for index, (name, rows) in enumerate(_named_groups(run)):
        points = [
            (row.traffic.flops / row.traffic.bytes, row.traffic.flops / row.series.median_us * 1e-6) for row in rows
        ]
        axes.plot(*zip(*points, strict=True), label=name, **(_style(index) | {"linestyle": "none"}))
    for index, (name, points) in enumerate(_peer_points(run.rows).items()):
        style = _style(index + 4) | {"linestyle": "none", "markerfacecolor": "none"}
        axes.plot(*zip(*points, strict=True), label=name, **style)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low, high)
    axes.set_xlabel("operations for each byte that must move, FLOP/byte")
    axes.set_ylabel("TFLOP/s")
    _plain_ticks(axes.xaxis, "{:g}".format)
    _plain_ticks(axes.yaxis, "{:g}".format)
    _finish(axes, "roofline", location="lower right")


def _roof(
    axes: Axes, low: float, high: float, tbps: float, tflops: float, label: str, colour: str, linestyle: str
) -> None:
    knee = min(high, tflops / tbps)
    xs = [low, knee, high]
    axes.plot(xs, [min(x * tbps, tflops) for x in xs], label=label, color=colour, linestyle=linestyle, linewidth=1.2)


def _peer_points(rows: Sequence[Row]) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        for peer in row.peers:
            if peer.series is not None:
                intensity = row.traffic.flops / row.traffic.bytes
                found.setdefault(peer.name, []).append((intensity, row.traffic.flops / peer.series.median_us * 1e-6))
    return found


def _draw_scaling(axes: Axes, run: Run) -> None:
    """TB/s over kv_len, or over the batch where one kv_len was measured; the ceiling of each line dashed."""
    over_batch = len({row.case.kv_len for row in run.rows}) == 1 and len({row.case.batch for row in run.rows}) > 1
    x_of: Callable[[DecodeCase], int] = (lambda case: case.batch) if over_batch else (lambda case: case.kv_len)
    groups: dict[str, list[Row]] = {}
    for row in run.rows:
        groups.setdefault(_line_name(row, run, over_batch=over_batch), []).append(row)
    for index, (name, rows) in enumerate(groups.items()):
        rows.sort(key=lambda row: x_of(row.case))
        xs, style = [x_of(row.case) for row in rows], _style(index)
        spans = [row.series.interval_us for row in rows]
        per_us = [row.traffic.bytes * 1e-6 for row in rows]
        spread = [
            [row.tbps - size / span.high for row, size, span in zip(rows, per_us, spans, strict=True)],
            [size / span.low - row.tbps for row, size, span in zip(rows, per_us, spans, strict=True)],
        ]
        axes.errorbar(xs, [row.tbps for row in rows], yerr=spread, label=name, capsize=2, **style)
        ceiling = [row.ceiling.tbps for row in rows]
        axes.plot(xs, ceiling, color=style["color"], linestyle=":", linewidth=1, marker="_", markersize=9)
    axes.plot([], [], color="#555555", linestyle=":", marker="_", label="read ceiling of the same cases")
    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted({x_of(row.case) for row in run.rows}))
    _plain_ticks(axes.xaxis, lambda x: format_size(round(x)), minor=False)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("batch, sequences in a call" if over_batch else "kv_len, keys of a sequence")
    axes.set_ylabel("TB/s")
    _finish(axes, "scaling")


def _named_groups(run: Run) -> list[tuple[str, list[Row]]]:
    groups: dict[str, list[Row]] = {}
    for row in run.rows:
        groups.setdefault(" ".join(filter(None, (row.kernel if row.arm else row.variant, row.arm))), []).append(row)
    return list(groups.items())


def _line_name(row: Row, run: Run, *, over_batch: bool) -> str:
    """What a line's rows have in common, of what tells it from the others."""
    case = row.case
    parts = {
        "name": row.kernel if row.arm else row.variant,
        "size": format_size(case.kv_len) if over_batch else f"batch {case.batch}",
        "heads": str(case.heads),
        "head_dim": f"d{case.head_dim}",
        "dtype": case.dtype,
        "page_size": "contiguous" if case.page_size is None else f"pages of {case.page_size}",
        "l2": f"{case.l2} L2",
    }
    several = {"size"} | {
        axis for axis in ("heads", "page_size", "l2") if len({getattr(one.case, axis) for one in run.rows}) > 1
    }
    if len({one.kernel if one.arm else one.variant for one in run.rows}) > 1:
        several.add("name")
    if row.arm:  # a variant's name says these
        axes = ("head_dim", "dtype")
        several |= {axis for axis in axes if len({getattr(one.case, axis) for one in run.rows}) > 1}
    return ", ".join(filter(None, (row.arm, *(text for part, text in parts.items() if part in several))))


def _style(index: int) -> dict[str, Any]:
    return {
        "color": COLOURS[index % len(COLOURS)],
        "marker": MARKERS[index % len(MARKERS)],
        "markersize": 5,
        "linewidth": 1.2,
        "linestyle": ("-", "-.", (0, (5, 1)))[index // len(COLOURS) % 3],
    }


def _plain_ticks(axis: Any, text: Callable[[float], str], *, minor: bool = True) -> None:
    ticker = import_module("matplotlib.ticker")
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: text(value)))
    axis.set_minor_formatter(ticker.NullFormatter())
    if not minor:
        axis.set_minor_locator(ticker.NullLocator())


def _finish(axes: Axes, title: str, location: str = "best") -> None:
    axes.set_title(title, fontsize=10)
    axes.grid(which="major", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(fontsize=7, loc=location, framealpha=0.9)


def _title(figure: Figure, text: str) -> None:
    figure.suptitle(text, fontsize=10)


def _save(figure: Figure, path: Path) -> None:
    """Written whole or not at all; an SVG has its text as text and no date, so that equal runs give equal files."""
    draft = path.with_name(f".{path.name}.tmp")
    kind = path.suffix.lower().removeprefix(".")
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    try:
        with import_module("matplotlib").rc_context(
            {"svg.fonttype": "none", "svg.hashsalt": re.sub(r"\W", "", path.stem) or "plot"}
        ):
            figure.savefig(draft, format=kind, metadata=metadata)
        draft.replace(path)
    except OSError as error:
        raise UsageError(f"--plot {path}: {error.strerror or error}", hint="a file that can be written") from error
    finally:
        draft.unlink(missing_ok=True)
