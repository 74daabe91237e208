"""The proof of a change: the pull-request table as a screen, as Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from sparkctl.bench.ab import Comparison, group_comparisons
from sparkctl.render.accuracy import HEADERS as ACCURACY_HEADERS
from sparkctl.render.accuracy import bar_line, bits_lines, report_lines
from sparkctl.render.bench import (
    WIDE,
    aligned_table,
    case_text,
    environment_lines,
    format_us,
    markdown_table,
    sampling_notes,
    varying_axes,
)
from sparkctl.render.bench_ab import heading, summary
from sparkctl.render.regs_columns import BLOCKS, DYNAMIC, LIMITERS, OCCUPANCY, REGISTERS, SPILLS, STATIC, WARPS, known
from sparkctl.render.regs_vs import NAMES as REGISTER_NAMES
from sparkctl.resources import Change
from sparkctl.workflows.proof import Proof
from sparkctl.workflows.proof_gate import PARTS, Part, arm_tests, register_changes, rows_of, tokens_per_second

if TYPE_CHECKING:
    from rich.console import Console

NAMES = ("arm", "variant")
LEFT = ("case", "outputs", "limiter", "tests", *NAMES)
WHOLE = ("interval", "ratio", "verdict")
REGISTER_COLUMNS = (REGISTERS, SPILLS, STATIC, DYNAMIC, BLOCKS, WARPS, OCCUPANCY, LIMITERS)
Cells = list[list[str]]


def show_proof(console: Console, proof: Proof) -> None:
    """Times and rates, then what else was asked of both arms, where, and the verdict."""
    wide = console.width >= WIDE
    console.print(Text(environment_line(proof)))
    console.print()
    for group in group_comparisons(proof.run.comparisons):
        console.print(Text(heading(group), style="bold"))
        tables = [joined_cells(proof, group)] if wide else [time_cells(group), rate_cells(proof, group)]
        for table in tables:
            console.print(aligned_table(table, left=LEFT, whole=WHOLE))
        console.print(Text(summary(group)))
        console.print()
    console.print(Text(rate_line(proof)))
    for note in notes(proof):
        console.print(Text(note))
    for title, cells in parts_cells(proof):
        console.print()
        console.print(Text(title, style="bold"))
        print_part(console, cells)
        for sentence in below_part(proof, title):
            console.print(Text(sentence))
    console.print()
    print_lines(console, [*environment_lines(proof.run), ("repeat", proof.request.command)])
    console.print()
    for sentence in verdict_lines(proof):
        console.print(Text(sentence, style="bold green" if proof.gain.proved else "bold red"))


def print_part(console: Console, cells: Cells) -> None:
    """As a table where it fits, else each name above its numbers."""
    widths = [
        max(cell_len(word) for cell in column for word in cell.split("\n")) for column in zip(*cells, strict=True)
    ]
    if sum(widths) + 2 * len(widths) <= console.width:
        console.print(aligned_table(cells, left=LEFT))
        return
    names = sum(title in NAMES for title in cells[0])
    header, *lines = cells
    deep = max(title.count("\n") for title in header) + 1
    titles = [("\n" * (deep - 1 - title.count("\n")) + title).split("\n") for title in header]

    def numbers(line: Sequence[str]) -> str:
        return "".join(f"{cell:>{width + 2}}" for cell, width in zip(line[names:], widths[names:], strict=True))

    for index in range(deep):
        console.print(Text(numbers([title[index] for title in titles]), style="bold"))
    for line in lines:
        console.print(Text(", ".join(line[:names])))
        console.print(Text(numbers(line)), soft_wrap=True)


def print_lines(console: Console, lines: Sequence[tuple[str, str]]) -> None:
    from rich.table import Table

    facts = Table.grid(padding=(0, 2, 0, 0))
    for label, text in lines:
        facts.add_row(label, text)
    console.print(facts)


def environment_line(proof: Proof) -> str:
    """`NVIDIA H200, driver 580.95.05, CUDA 13.0, SM at 1980 MHz, commit 0123456789ab, clean`."""
    env, clocks = proof.run.environment, proof.run.clocks_mhz
    seen = "–".join(str(clock) for clock in dict.fromkeys(clocks or ()))
    state = "dirty" if proof.stamp.dirty else "clean"
    return f"{env.gpu}, driver {env.driver}, CUDA {env.cuda}, SM at {seen} MHz, commit {proof.stamp.commit}, {state}"


def time_cells(group: Sequence[Comparison]) -> Cells:
    """Before and after, the ratio and what it says."""
    base, other = group[0].base.arm, group[0].other.arm
    lines = [
        [
            _case(one, group),
            format_us(one.base.series.median_us),
            format_us(one.other.series.median_us),
            f"{one.ratio:.3f}",
            f"{one.interval.low:.3f}–{one.interval.high:.3f}",
            str(one.verdict),
            str(one.bits) if one.bits.equal else f"{one.bits.differing} differ",
        ]
        for one in group
    ]
    return [["case", f"{_short(base)}\nµs", f"{_short(other)}\nµs", "ratio", "interval", "verdict", "outputs"], *lines]


def rate_cells(proof: Proof, group: Sequence[Comparison]) -> Cells:
    """Tokens a second through the attention of N layers, and the time of so many tokens."""
    base, other, tokens = group[0].base.arm, group[0].other.arm, proof.request.tokens
    header = ["case"]
    header += [f"{_short(arm)}\ntok/s" for arm in (base, other)]
    header += [f"{_short(arm)}\n{tokens} tokens, ms" for arm in (base, other)]
    return [header, *([_case(one, group), *_rates(proof, one)] for one in group)]


def _rates(proof: Proof, one: Comparison) -> list[str]:
    times = (one.base.series.median_us, one.other.series.median_us)
    layers, batch = proof.request.layers, one.other.case.batch
    rates = [f"{tokens_per_second(batch, layers, time):.0f}" for time in times]
    return [*rates, *(format_us(decode_ms(proof, time)) for time in times)]


def decode_ms(proof: Proof, time_us: float) -> float:
    """Of `tokens` steps of the whole batch."""
    return proof.request.layers * proof.request.tokens * time_us * 1e-3


def joined_cells(proof: Proof, group: Sequence[Comparison]) -> Cells:
    """Both tables as one."""
    times, rates = time_cells(group), rate_cells(proof, group)
    return [[*time[:-1], *rate[1:], time[-1]] for time, rate in zip(times, rates, strict=True)]


def _case(one: Comparison, group: Sequence[Comparison]) -> str:
    mark = " !" if one.base.series.throttled or one.other.series.throttled else ""
    return case_text(one.other.case, varying_axes([each.other.case for each in group])) + mark


def _short(label: str) -> str:
    return label if len(label) <= 11 else label.replace("=", "\n=")


def rate_line(proof: Proof) -> str:
    """What tok/s means."""
    layers, tokens = proof.request.layers, proof.request.tokens
    return (
        f"tok/s: attention only, batch / ({layers} layers × time of one attention call); {tokens} tokens of every "
        f"sequence are {layers} × {tokens} calls. No projection, MLP or sampling is in it."
    )


def notes(proof: Proof) -> Iterator[str]:
    """What a reader must know to trust or doubt a row."""
    if proof.baseline is not None:
        yield f"{proof.plan.before.label} is {proof.baseline.label}; tests are of this tree."
    for row in proof.run.rows:
        yield from sampling_notes(row)


def parts_cells(proof: Proof) -> list[tuple[str, Cells]]:
    """Tests, registers and accuracy: a title and a table each."""
    plan, registers = proof.tests.plan, proof.registers[1]
    return [
        (f"tests, {plan.backend}, {plan.device}, {plan.grid} cases", tests_cells(proof)),
        (f"registers, {registers.archs[0].name}, {registers.compiler}", register_cells(proof)),
        ("accuracy", accuracy_cells(proof)),
    ]


def below_part(proof: Proof, title: str) -> list[str]:
    """What is said under a table of `parts_cells`."""
    if title.startswith("registers"):
        return [change_line(change) for change in register_changes(proof.plan, proof.registers)]
    return [*bits_lines(proof.accuracy), bar_line()] if title == "accuracy" else []


def change_line(change: Change) -> str:
    """`fa_split_gqa.bf16.d128.s1 → fa_split_gqa.bf16.d128: moved, registers 72 → 80`."""
    parts = [f"{REGISTER_NAMES[d.field]} {known(d.old)} → {known(d.new)}" for d in change.differences]
    return ", ".join([f"{change.name}: {change.verdict}", *parts])


def tests_cells(proof: Proof) -> Cells:
    counts = arm_tests(proof.plan, proof.tests)
    lines = [
        [arm.label, f"{tests.passed} of {tests.planned} cases passed{_skipped(tests.planned - tests.run)}"]
        for arm, tests in zip(proof.plan.tested, counts, strict=True)
    ]
    return [["arm", "tests"], *lines]


def _skipped(count: int) -> str:
    return f", {count} skipped" if count else ""


def register_cells(proof: Proof) -> Cells:
    header = ["arm", "variant", *("\n".join(column.header) for column in REGISTER_COLUMNS)]
    lines = [
        [arm.label, row.name, *(column.cell(row).replace("!", "") for column in REGISTER_COLUMNS)]
        for arm, registers in zip(proof.plan.arms, proof.registers, strict=True)
        for name in arm.variants
        for row in rows_of(registers, name)
    ]
    return [header, *lines]


def accuracy_cells(proof: Proof) -> Cells:
    return [["arm", *ACCURACY_HEADERS], *([line.label, *line.cells] for line in report_lines(proof.accuracy))]


def verdict_lines(proof: Proof) -> list[str]:
    """`gain`, or why there is none."""
    if proof.gain.proved:
        return [f"a gain: {proof.plan.after.label} against {proof.plan.before.label}"]
    return [f"no gain: {reason}" for reason in proof.gain.reasons]


def proof_markdown(proof: Proof) -> str:
    """For a pull request."""
    blocks = [environment_line(proof), ""]
    for group in group_comparisons(proof.run.comparisons):
        blocks += [f"**{heading(group)}**", "", *markdown_table(joined_cells(proof, group), left=LEFT)]
        blocks += ["", summary(group), ""]
    for title, cells in parts_cells(proof):
        blocks += [f"**{title}**", "", *markdown_table(cells, left=LEFT), ""]
        below = below_part(proof, title)
        blocks += [*(f"- {sentence}" for sentence in below), ""] if below else []
    facts = [rate_line(proof), *notes(proof)]
    facts += [f"{label}: {text}" for label, text in environment_lines(proof.run)]
    facts.append(f"repeat: `{proof.request.command}`")
    return "\n".join([*blocks, *(f"- {fact}" for fact in facts), "", *(f"**{line}**" for line in verdict_lines(proof))])


def interrupted_line(finished: Sequence[Part], at: str | None) -> str:
    """What a run that was stopped had done: `finished: tests, accuracy; stopped in benchmark, 2 of 4: …`."""
    left = [part for part in PARTS if part not in finished]
    done = ", ".join(finished) or "nothing"
    where = f"; stopped in {left[0]}{f' at {at}' if at else ''}" if left else ""
    return f"finished: {done}{where}; nothing is saved"
