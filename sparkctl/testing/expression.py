"""The -k expression: words with `and`, `or`, `not` and parentheses.

A word selects what contains it, letters' case ignored. A word that is the whole id of a case selects that case alone,
so that the command printed for a failure reruns nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from sparkctl.errors import UsageError

Matcher = Callable[[str, str], bool]  # (variant name, case id) -> selected


def parse_expression(text: str, case_ids: Iterable[str]) -> Matcher:
    """UsageError where the expression does not parse."""
    tokens = re.findall(r"[()]|[^\s()]+", text)
    whole = frozenset(case_ids)
    matcher, rest = parse_or(tokens, whole, text)
    if rest:
        raise malformed(text, f"unexpected {rest[0]!r}")
    return matcher


def parse_or(tokens: list[str], whole: frozenset[str], text: str) -> tuple[Matcher, list[str]]:
    left, rest = parse_and(tokens, whole, text)
    while rest and rest[0] == "or":
        right, rest = parse_and(rest[1:], whole, text)
        left = either(left, right)
    return left, rest


def parse_and(tokens: list[str], whole: frozenset[str], text: str) -> tuple[Matcher, list[str]]:
    left, rest = parse_not(tokens, whole, text)
    while rest and rest[0] == "and":
        right, rest = parse_not(rest[1:], whole, text)
        left = both(left, right)
    return left, rest


def parse_not(tokens: list[str], whole: frozenset[str], text: str) -> tuple[Matcher, list[str]]:
    if not tokens or tokens[0] in ("and", "or", ")"):
        raise malformed(text, f"a word is missing before {tokens[0]!r}" if tokens else "a word is missing at its end")
    head, rest = tokens[0], tokens[1:]
    if head == "not":
        inner, rest = parse_not(rest, whole, text)
        return negated(inner), rest
    if head == "(":
        inner, rest = parse_or(rest, whole, text)
        if not rest or rest[0] != ")":
            raise malformed(text, "a ')' is missing")
        return inner, rest[1:]
    return word(head, whole), rest


def word(text: str, whole: frozenset[str]) -> Matcher:
    if text in whole:
        return lambda variant, case: case == text
    lower = text.lower()
    return lambda variant, case: lower in variant.lower() or lower in case.lower()


def either(left: Matcher, right: Matcher) -> Matcher:
    return lambda variant, case: left(variant, case) or right(variant, case)


def both(left: Matcher, right: Matcher) -> Matcher:
    return lambda variant, case: left(variant, case) and right(variant, case)


def negated(inner: Matcher) -> Matcher:
    return lambda variant, case: not inner(variant, case)


def malformed(text: str, reason: str) -> UsageError:
    return UsageError(
        f"-k {text!r}: {reason}", hint="write words with and, or, not and parentheses: 'causal and not large'"
    )
