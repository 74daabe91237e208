"""The accuracy report: a line of numbers for each arm, what fails in words; Markdown and JSON of the same."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.text import Text

from sparkctl.testing.logits import KL_BAR, TOP1_BAR, LogitScore
from sparkctl.testing.model_folder import ModelFacts
from sparkctl.testing.precision import Precision
from sparkctl.workflows.accuracy import AccuracyReport, ArmReport, reasons

if TYPE_CHECKING:
    from rich.console import Console

HEADERS = ("rel. L2", "largest", "of allowed", "positions", "top-1", "KL mean", "KL max")
WIDTHS = tuple(max(len(header), 8) + 2 for header in HEADERS)
LOUD = "bold red"


@dataclass(frozen=True, slots=True)
class Line:
    """One arm, or the plain implementation beside them."""

    label: str
    cells: tuple[str, ...]
    failed: bool = False


def show_accuracy(console: Console, report: AccuracyReport) -> None:
    """Arms side by side where the width allows, else each name above its numbers."""
    lines = list(report_lines(report))
    longest = max(cell_len(line.label) for line in lines)
    wide = longest + sum(WIDTHS) + len("  FAIL") <= console.width
    indent = longest if wide else 0
    console.print(Text(head_line(report), style="bold"))
    console.print()
    console.print(Text(" " * indent + "".join(f"{h:>{w}}" for h, w in zip(HEADERS, WIDTHS, strict=True)), style="bold"))
    for line in lines:
        numbers = "".join(f"{cell:>{w}}" for cell, w in zip(line.cells, WIDTHS, strict=True))
        mark, style = ("  FAIL", LOUD) if line.failed else ("", "")
        if wide:
            console.print(Text(line.label.ljust(indent) + numbers + mark, style=style), soft_wrap=True)
        else:
            console.print(Text(line.label + mark, style=style), soft_wrap=True)
            console.print(Text(numbers, style=style), soft_wrap=True)
    console.print()
    for sentence in (*bits_lines(report), *fault_lines(report)):
        console.print(Text(sentence))
    console.print(Text(bar_line(), style="dim"))
    console.print(Text(provenance(report), style="dim"))
    failed = sum(not arm.passed for arm in report.arms)
    verdict = f"{failed} of {len(report.arms)} failed" if failed else "all passed"
    console.print(Text(f"{count(len(report.arms), 'arm')}: {verdict}", style=LOUD if failed else "bold green"))


def accuracy_markdown(report: AccuracyReport) -> str:
    """A table for a pull request, what it means below."""
    rows = [f"| arm | {' | '.join(HEADERS)} | |", f"| --- | {' | '.join(['---:'] * len(HEADERS))} | --- |"]
    rows += [
        f"| {line.label} | {' | '.join(line.cells)} | {'**FAIL**' if line.failed else ''} |"
        for line in report_lines(report)
    ]
    below = [head_line(report), *bits_lines(report), *fault_lines(report), bar_line(), provenance(report)]
    return "\n".join([*rows, "", *below])


def accuracy_json(report: AccuracyReport) -> dict[str, Any]:
    """Everything the report knows; what is not finite is null."""
    request = report.request
    return {
        "command": "accuracy",
        "passed": report.passed,
        "backend": report.backend,
        "device": report.device,
        "dtype": request.dtype,
        "head_dim": request.head_dim,
        "ab": None if request.ab is None else {"name": request.ab.name, "values": list(request.ab.values)},
        "seed": request.seed,
        "stack": asdict(request.stack) if request.model is None else None,
        "model": None
        if request.model is None
        else {**asdict(request.model), "tokens": report.tokens, "prompt": request.prompt, "steps": request.steps},
        "bars": {"top1": TOP1_BAR, "kl_mean": KL_BAR},
        "profile": request.profile,
        "sets": dict(request.sets),
        "flags": dict(request.flags),
        "compiler": report.compiler,
        "commit": report.stamp.commit,
        "dirty": report.stamp.dirty,
        "arms": [_arm_json(arm) for arm in report.arms],
        "plain": {
            kind_name(kind): _numbers_json(precision, score) for kind, (precision, score) in report.plain.items()
        },
    }


def head_line(report: AccuracyReport) -> str:
    request, stack = report.request, report.request.stack
    heads = f"{stack.num_qo_heads}/{stack.num_kv_heads} heads"
    return f"{request.dtype}, head_dim {request.head_dim}, {heads}, on {report.device}"


def report_lines(report: AccuracyReport) -> Iterator[Line]:
    """The arms, then what the dtype alone costs."""
    for arm in report.arms:
        yield Line(arm.arm.label, number_cells(arm.precision, arm.score), failed=not arm.passed)
    for is_decode, (precision, score) in report.plain.items():
        what = f" ({kind_name(is_decode)})" if len(report.plain) > 1 else ""
        by = f"plain {report.request.dtype} in torch" if report.request.model is None else "plain, SDPA in the model"
        yield Line(f"{by}{what}", number_cells(precision, score))


def number_cells(precision: Precision, score: LogitScore) -> tuple[str, ...]:
    return (
        f"{precision.relative_l2:.2e}",
        f"{precision.largest:.2e}",
        f"{precision.of_allowed:.2f}",
        str(score.positions),
        f"{score.top1:.3f}",
        f"{score.kl_mean:.1e}",
        f"{score.kl_max:.1e}",
    )


def bits_lines(report: AccuracyReport) -> Iterator[str]:
    """What --ab compares, arm by arm."""
    for arm in report.arms:
        if arm.bits is not None:
            yield f"{arm.arm.label}: {arm.bits}, of {arm.bits.total} outputs"


def fault_lines(report: AccuracyReport) -> Iterator[str]:
    """Why an arm fails."""
    for arm in report.arms:
        for reason in reasons(arm):
            yield f"{arm.arm.label} fails: {reason}"


def bar_line() -> str:
    return f"bars: of allowed ≤ 1, top-1 ≥ {TOP1_BAR:.2f}, KL mean ≤ {KL_BAR:.2f} nats; all against fp64"


def provenance(report: AccuracyReport) -> str:
    request, stack, stamp = report.request, report.request.stack, report.stamp
    revision = f"commit {stamp.commit}{' with changes' if stamp.dirty else ''}" if stamp.commit else "no commit known"
    sets = "".join(f", {name}={value}" for name, value in {**request.sets, **request.flags}.items())
    positions = f"{stack.batch} × ({stack.prompt} + {stack.steps}) positions"
    if request.model is None:
        model = f"{stack.layers} layers, {positions}, seed {request.seed}"
    else:
        model = f"{model_text(request.model)}, {positions}, tokens: {report.tokens}"
    return f"{model}; {report.compiler}, profile {request.profile}{sets}; {revision}"


def model_text(facts: ModelFacts) -> str:
    """`tiny (Qwen3ForCausalLM, 2 layers, 8/2 heads)`."""
    heads = f"{facts.num_qo_heads}/{facts.num_kv_heads} heads"
    return f"{facts.folder} ({facts.architecture}, {count(facts.layers, 'layer')}, {heads})"


def kind_name(is_decode: bool) -> str:
    return "decode" if is_decode else "prefill"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _arm_json(report: ArmReport) -> dict[str, Any]:
    arm, bits = report.arm, report.bits
    return {
        "label": arm.label,
        "operator": arm.operator,
        "paged": arm.paged,
        "kernel": arm.kernel,
        "variant": arm.variant,
        "num_splits": arm.num_splits,
        "flags": dict(arm.flags),
        "passed": report.passed,
        "reasons": list(reasons(report)),
        **_numbers_json(report.precision, report.score),
        "bits": None if bits is None else {**asdict(bits), "equal": bits.equal},
    }


def _numbers_json(precision: Precision, score: LogitScore) -> dict[str, Any]:
    return {
        "precision": {name: _finite(value) for name, value in asdict(precision).items()},
        "logits": {name: _finite(value) for name, value in asdict(score).items()},
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
