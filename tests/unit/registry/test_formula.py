"""The safe evaluator of formulas."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkctl.errors import UsageError
from sparkctl.registry import evaluate

AXES = {"head_dim": 128, "stages": 2, "dtype": "bf16"}

GOOD = [
    ("2 * stages * head_dim", 512),
    ("head_dim // 3", 42),
    ("head_dim / 2", 64),
    ("head_dim == 128 and stages < 4", 1),
    ("not stages", 0),
    ("dtype == 'bf16'", 1),
    ("min(head_dim, 64) + max(stages, 3)", 67),
    ("ceil_div(head_dim + 1, 32)", 5),
    ("64 if head_dim > 64 else 32", 64),
    ("1 << stages", 4),
    (" 32 ", 32),
]

BAD = [
    ("", "invalid syntax"),
    ("head_dims", "unknown name 'head_dims'"),
    ("1 or typo", "unknown name 'typo'"),
    ("head_dim / 3", "is not a whole number"),
    ("dtype", "'bf16' is not a whole number"),
    ("dtype + 1", "can only concatenate str"),
    ("stages // 0", "division by zero"),
    ("x = 1", "invalid syntax"),
    ("1; 2", "invalid syntax"),
    ("9 ** 9", "Pow cannot be used"),
    ("1 << 99999", "I don't want to evaluate"),
    ("10 ** 15 * 10 ** 15", "Pow cannot be used"),
    ("999999999 * 999999999", "beyond 2^53"),
    ("__import__('os')", "unknown function '__import__'"),
    ("dtype.upper()", "Call cannot be used"),
    ("(1).__class__", "Attribute cannot be used"),
    ("dtype[0]", "Subscript cannot be used"),
    ("[1, 2]", "List cannot be used"),
    ("lambda: 1", "Lambda cannot be used"),
    ("f'{stages}'", "JoinedStr cannot be used"),
    ("max(1, default=2)", "cannot be used"),
    ("1 + " * 200 + "1", "longer than 500 characters"),
]


@pytest.mark.parametrize(("formula", "value"), GOOD)
def test_a_formula_comes_to_a_whole_number(formula: str, value: int) -> None:
    result = evaluate(formula, AXES)
    assert result == value
    assert type(result) is int


@pytest.mark.parametrize(("formula", "reason"), BAD)
def test_a_bad_formula_says_what_is_wrong(formula: str, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        evaluate(formula, AXES)
    assert caught.value.message.startswith("formula '")
    assert reason in caught.value.message


@given(st.text(max_size=60))
def test_any_text_is_a_number_or_a_usage_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert type(evaluate(text, AXES)) is int


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 999))
def test_arithmetic_agrees_with_python(a: int, b: int, c: int) -> None:
    assert evaluate("a * 2 + b // c - a % c", {"a": a, "b": b, "c": c}) == a * 2 + b // c - a % c
