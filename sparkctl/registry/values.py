"""Flag values and ranges as people write them, and their one canonical text."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

from sparkctl.errors import UsageError
from sparkctl.registry.model import Flag, Range, Registry
from sparkctl.registry.suggest import did_you_mean

_BOOLS = {"1": "1", "true": "1", "on": "1", "0": "0", "false": "0", "off": "0"}
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_RANGE = re.compile(r"([0-9]{1,18})\.\.([0-9]{1,18})?")


def canonical_value(flag: Flag, text: str) -> str:
    """`text` as the flag stores it: bools "1" and "0", integers without sign or leading zeros, strings as they are.

    UsageError names the flag, the value and what is accepted.
    """
    value = canonical_text(flag.type, text)
    if value is None or not _is_accepted(flag, value):
        raise UsageError(f"flag {flag.name}: '{text}' is not accepted", hint=f"accepted: {accepted_text(flag)}")
    return value


def canonical_text(kind: str, text: str) -> str | None:
    """None where `text` is no value of the type."""
    if kind == "bool":
        return _BOOLS.get(text.strip().lower())
    if kind == "int":
        return str(int(text)) if _INTEGER.fullmatch(text.strip()) else None
    return None if "\n" in text or "\0" in text else text


def accepted_text(flag: Flag) -> str:
    """What a flag takes, for messages and tables: `0, 1`, `1..32`, `a whole number`, `any text`."""
    if isinstance(flag.accepts, Range):
        return str(flag.accepts)
    if flag.accepts is not None:
        return ", ".join(value or "''" for value in flag.accepts)
    if flag.options and "*" not in flag.options:
        return ", ".join(value or "''" for value in flag.options)
    return {"bool": "0, 1, false, true, off, on", "int": "a whole number", "str": "any text, in shell quoting"}[
        flag.type
    ]


def parse_range(text: str) -> Range | None:
    """`1..64`, `0..` or `16`; None where it is no range or an empty one."""
    if _INTEGER.fullmatch(text) and int(text) >= 0:
        return Range(int(text), int(text))
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        return None
    stop = int(match[2]) if match[2] else None
    return None if stop is not None and stop < int(match[1]) else Range(int(match[1]), stop)


def parse_sets(registry: Registry, items: Sequence[str]) -> dict[str, str]:
    """The values of repeated `--set NAME=VALUE` options, canonical; a later one wins.

    UsageError for an item without `=`, an unknown flag or a value that it does not accept.
    """
    values: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals:
            raise UsageError(f"--set {item}: no value", hint="write it as --set NAME=VALUE")
        values[name.strip()] = value
    return canonical_values(registry, values, "--set")


def canonical_values(registry: Registry, values: Mapping[str, str], source: str) -> dict[str, str]:
    """Flag values from one source, checked and canonical; UsageError names the source."""
    result: dict[str, str] = {}
    for name, value in values.items():
        if name not in registry.flags:
            raise UsageError(f"{source}: unknown flag '{name}'", hint=_flag_hint(registry, name, registry.flags))
        try:
            result[name] = canonical_value(registry.flags[name], value)
        except UsageError as error:
            raise UsageError(f"{source}: {error.message}", hint=error.hint) from error
    return result


ENVIRONMENT_PREFIX = "SPARKCTL_FLAG_"


def environment_values(registry: Registry, environ: Mapping[str, str]) -> dict[str, str]:
    """Flag values from SPARKCTL_FLAG_<NAME>; the name's case does not matter, an unknown one is a UsageError."""
    by_upper = {name.upper(): name for name in registry.flags}
    values: dict[str, str] = {}
    for variable in sorted(environ):
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        upper = variable.removeprefix(ENVIRONMENT_PREFIX).upper()
        if upper not in by_upper:
            hint = _flag_hint(registry, variable, [ENVIRONMENT_PREFIX + name for name in by_upper])
            raise UsageError(f"environment: {variable} names no flag", hint=hint)
        values |= canonical_values(registry, {by_upper[upper]: environ[variable]}, f"environment: {variable}")
    return values


def tokens_for(flag: Flag, value: str) -> tuple[str, ...]:
    """The compiler options of a canonical value. A template that is just `{value}` splits as a shell would."""
    template = flag.options.get(value, flag.options.get("*", ()))
    tokens: list[str] = []
    for token in template:
        tokens += shlex.split(value) if token == "{value}" else [token.replace("{value}", value)]
    return tuple(tokens)


def _flag_hint(registry: Registry, name: str, known: Iterable[str]) -> str:
    if not registry.flags:
        return f"{registry.path.name} has no flags"
    return did_you_mean(name, known) or "sparkctl flags lists them"


def _is_accepted(flag: Flag, value: str) -> bool:
    if isinstance(flag.accepts, Range):
        return int(value) in flag.accepts
    if flag.accepts is not None:
        return value in flag.accepts
    if flag.options and "*" not in flag.options and value not in flag.options:
        return False
    if flag.options:
        try:
            tokens_for(flag, value)
        except ValueError:  # an open quote
            return False
    return True
