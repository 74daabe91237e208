"""The command that repeats one row of a run, from the run's own command. Pure."""

from __future__ import annotations

import shlex

from sparkctl.bench.axes import DecodeCase
from sparkctl.bench.lengths import format_lengths
from sparkctl.bench.results import Row, Run
from sparkctl.bench.sizes import format_size

PROGRAM = ["sparkctl", "bench"]
KEYS_OPTIONS = ("--seq", "--batch", "--seq-lens", "--ragged", "--seed", "--no-equal")
# Several cases or variants in one word.
NOT_FOR_ONE_ROW = frozenset({"--suite", "--where", "--variant", *KEYS_OPTIONS})


def repeat_command(row: Row, run: Run) -> str | None:
    """The run's command with the row's case and variant alone; both arms of a comparison.

    Without a kernel in the run's command there is none in the row's: the operator chose it, and does so again. None
    for a run that no `sparkctl bench` made.
    """
    words = shlex.split(run.command)
    if words[:2] != PROGRAM:
        return None
    patterns, options = _split(words[2:])
    patterns = _patterns_of(row, run, patterns, narrowed="--where" in options or "--suite" in options)
    keep = NOT_FOR_ONE_ROW - ({"--where"} if run.ab is not None else frozenset())
    left = {name: values for name, values in options.items() if name not in keep}
    case = {name: [value] for name, value in _case_options(row, left, by_suite="--suite" in options).items()}
    left = {**case, **{name: values for name, values in left.items() if name not in case}}
    rest = [word for name, values in left.items() for value in values for word in _option(name, value)]
    return shlex.join([*PROGRAM, *patterns, *rest])


def _split(words: list[str]) -> tuple[list[str], dict[str, list[str | None]]]:
    """Names first, then options with their values; None is the value of an option that takes none."""
    first = next((i for i, word in enumerate(words) if word.startswith("--")), len(words))
    options: dict[str, list[str | None]] = {}
    rest = words[first:]
    for index, word in enumerate(rest):
        if word.startswith("--"):
            value = rest[index + 1] if index + 1 < len(rest) and not rest[index + 1].startswith("--") else None
            options.setdefault(word, []).append(value)
    return words[:first], options


def _option(name: str, value: str | None) -> list[str]:
    return [name] if value is None else [name, value]


def _patterns_of(row: Row, run: Run, patterns: list[str], *, narrowed: bool) -> list[str]:
    if run.ab is None:
        return [row.variant] if patterns or narrowed else []
    if any("." in pattern for pattern in patterns):
        return [row.variant]
    return [row.kernel] if patterns else []


def _keys_options(case: DecodeCase) -> dict[str, str | None]:
    """The lengths of the batch, without the equal ones beside them."""
    if case.spread is not None:
        drawn = {"--ragged": str(case.spread), "--seed": str(case.spread.seed), "--batch": str(case.batch)}
        return {**drawn, "--no-equal": None}
    if case.kv_lens is not None:
        return {"--seq-lens": format_lengths(case.kv_lens, ","), "--no-equal": None}
    return {"--seq": format_size(case.kv_len), "--batch": str(case.batch)}


def _case_options(row: Row, given: dict[str, list[str | None]], *, by_suite: bool) -> dict[str, str | None]:
    case = row.case
    options: dict[str, str | None] = {
        **_keys_options(case),
        "--heads": str(case.heads),
        "--head-dim": str(case.head_dim),
        "--dtype": case.dtype,
    }
    if case.page_size is not None or "--page-size" in given:
        options["--page-size"] = "none" if case.page_size is None else str(case.page_size)
    if by_suite and case.prefill:
        options["--prefill"] = None
    implied = case.kv_len if case.prefill else 1
    if "," in (given.get("--qo-len", [""])[0] or "") or (by_suite and case.qo_len != implied):
        options["--qo-len"] = str(case.qo_len)
    if by_suite:  # where no option need have said these
        options |= {"--causal": None} if case.causal else {}
        options |= {"--num-splits": str(case.num_splits)} if case.num_splits is not None else {}
    if by_suite or "--l2" in given:
        options["--l2"] = case.l2
    return options
