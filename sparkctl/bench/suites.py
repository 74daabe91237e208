"""Suites: the cases of flags.yaml by name, narrowed and completed by options. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from sparkctl.bench.axes import DecodeCase, check_case, parse_case
from sparkctl.bench.sizes import format_size
from sparkctl.errors import UsageError
from sparkctl.registry import Location, Registry, Suite
from sparkctl.registry.suggest import did_you_mean

Written = tuple[DecodeCase, frozenset[str]]  # a case, and the fields that its text states
OPTIONS = {
    "kv_len": "--seq",
    "batch": "--batch",
    "heads": "--heads",
    "head_dim": "--head-dim",
    "dtype": "--dtype",
    "page_size": "--page-size",
    "qo_len": "--qo-len",
    "causal": "--causal",
    "num_splits": "--num-splits",
    "l2": "--l2",
}  # by field of DecodeCase


def find_suites(registry: Registry, names: Sequence[str]) -> tuple[Suite, ...]:
    """UsageError for a name that flags.yaml does not have."""
    for name in names:
        if name not in registry.suites:
            where = registry.path.name
            hint = did_you_mean(name, registry.suites) or f"sparkctl flags list names those of {where}"
            raise UsageError(
                f"--suite: {where} has no suite '{name}'",
                hint=hint if registry.suites else f"{where} has none; docs/registry.md says how one is written",
            )
    return tuple(registry.suites[name] for name in names)


@dataclass(frozen=True, slots=True)
class WrongCase:
    """One entry of a suite that cannot be read."""

    location: Location
    key: str
    what: str
    hint: str | None


def wrong_cases(suite: Suite) -> list[WrongCase]:
    """Entries that are no case, or that the suite has already."""
    return [one for one in _read(suite) if isinstance(one, WrongCase)]


def _read(suite: Suite) -> list[Written | WrongCase]:
    found: list[Written | WrongCase] = []
    for index, (text, where) in enumerate(zip(suite.cases, suite.case_locations, strict=True)):
        key = f"suites.{suite.name}.cases[{index}]"
        try:
            case = parse_case(text)
        except UsageError as error:
            found.append(WrongCase(where, key, error.message, error.hint))
        else:
            twice = WrongCase(where, key, f"'{text}' is written twice", "each case once")
            found.append(twice if case in found else case)
    return found


def _read_all(suites: Sequence[Suite]) -> list[Written]:
    """UsageError with the line of every entry that is wrong."""
    found = [one for suite in suites for one in _read(suite)]
    wrong = [one for one in found if isinstance(one, WrongCase)]
    if wrong:
        hints = dict.fromkeys(one.hint for one in wrong if one.hint)
        lines = [f"{one.location}: key {one.key}: {one.what}" for one in wrong]
        raise UsageError("\n".join(lines), hint="\n".join(hints) or None)
    return [one for one in found if not isinstance(one, WrongCase)]


def suite_cases(
    suites: Sequence[Suite], options: Mapping[str, Sequence[Any]], given: Collection[str]
) -> tuple[DecodeCase, ...]:
    """The cases of all suites in their order, duplicates removed.

    `options` has values for every field of DecodeCase. What a case leaves out takes all of them; what it states stays,
    and is dropped where the option was `given` and does not list it. UsageError where that leaves nothing.
    """
    written = _read_all(suites)
    asked = {name: options[name] for name in OPTIONS if name in given}
    cases: dict[DecodeCase, None] = {}
    for case, stated in written:
        if all(getattr(case, name) in values for name, values in asked.items() if name in stated):
            open_fields = [name for name in options if name not in stated]
            for values in product(*(options[name] for name in open_fields)):
                cases[replace(case, **dict(zip(open_fields, values, strict=True)))] = None
    for case in cases:
        check_case(case)
    if not cases:
        names = ",".join(suite.name for suite in suites)
        text = " ".join(f"{OPTIONS[name]} {','.join(map(_shown, values))}" for name, values in asked.items())
        has = [f"{OPTIONS[name]} {_values_of(written, name)}" for name in asked]
        raise UsageError(f"--suite {names} has no case of {text}", hint="its cases have " + ", ".join(has))
    return tuple(cases)


def _values_of(written: Sequence[Written], name: str) -> str:
    return ",".join(dict.fromkeys(_shown(getattr(case, name)) for case, stated in written if name in stated))


def _shown(value: object) -> str:
    """As the option takes it."""
    if value is None:
        return "none"
    return format_size(value) if isinstance(value, int) and not isinstance(value, bool) else str(value)
