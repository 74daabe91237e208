"""Formulas over axes, as flags.yaml writes them: whole-number arithmetic and comparisons, never Python's `eval`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import lru_cache

import simpleeval

from sparkctl.errors import UsageError
from sparkctl.registry.suggest import did_you_mean

MAX_LENGTH = 500  # characters
MAX_VALUE = 2**53


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


FUNCTIONS: Mapping[str, Callable[..., object]] = {"min": min, "max": max, "ceil_div": _ceil_div}

# Of these not the power: a formula must not be able to ask for a number with a million digits.
_ALLOWED: tuple[type[ast.AST], ...] = (
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.IfExp,
    ast.Constant,
    ast.operator,
    ast.unaryop,
    ast.boolop,
    ast.cmpop,
    ast.expr_context,
)


def evaluate(formula: str, names: Mapping[str, int | str]) -> int:
    """The whole number that `formula` comes to with axes at `names`; a condition gives 1 or 0.

    Operators are Python's without `**` (`//` divides whole numbers); functions are min, max and ceil_div.
    Raises UsageError naming the formula and what is wrong with it.
    """
    _, used = _parse(formula)
    for name in used:
        if name not in names:
            raise UsageError(f"formula '{formula}': unknown name '{name}'", hint=did_you_mean(name, names))
    return _value(formula, tuple((name, names[name]) for name in used))


@lru_cache(maxsize=8192)  # a registry asks the same of every variant, and again for every case of a benchmark
def _value(formula: str, names: tuple[tuple[str, int | str], ...]) -> int:
    """What it comes to with the names that it uses."""
    evaluator = simpleeval.SimpleEval(names=dict(names), functions=dict(FUNCTIONS))
    try:
        value = evaluator.eval(formula, previously_parsed=_parse(formula)[0])
    except ZeroDivisionError as error:
        raise UsageError(f"formula '{formula}': division by zero") from error
    except Exception as error:  # simpleeval passes on whatever an operator raised
        raise UsageError(f"formula '{formula}': {error}") from error
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int):
        raise UsageError(f"formula '{formula}': {value!r} is not a whole number", hint="// divides whole numbers")
    if abs(value) > MAX_VALUE:
        raise UsageError(f"formula '{formula}': the result is beyond 2^53")
    return int(value)


@lru_cache(maxsize=1024)
def _parse(formula: str) -> tuple[ast.expr, tuple[str, ...]]:
    """The formula's tree and the names it uses, in order."""
    if len(formula) > MAX_LENGTH:
        raise UsageError(f"formula '{formula[:40]}…': longer than {MAX_LENGTH} characters")
    try:
        tree = ast.parse(formula.strip(), mode="eval").body
    except SyntaxError as error:
        raise UsageError(f"formula '{formula}': {error.msg}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"formula '{formula}': {error}") from error
    called: set[ast.AST] = set()
    used: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            called.add(node.func)
            if node.func.id not in FUNCTIONS:
                hint = did_you_mean(node.func.id, FUNCTIONS)
                raise UsageError(f"formula '{formula}': unknown function '{node.func.id}'", hint=hint)
        elif isinstance(node, ast.Name):
            if node not in called:
                used.append(node.id)
        elif not isinstance(node, _ALLOWED) or isinstance(node, ast.Pow):
            hint = "numbers, axes, + - * // % << >>, comparisons, and/or/not, min, max, ceil_div"
            raise UsageError(f"formula '{formula}': {type(node).__name__} cannot be used", hint=hint)
    return tree, tuple(dict.fromkeys(used))
