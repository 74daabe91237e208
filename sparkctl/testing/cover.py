"""Pairwise covers: few rows of axis values in which every pair of values of two axes appears that a bound allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, product
from typing import Any

Row = dict[str, Any]
Cell = tuple[str, int]  # axis, index of the value


def cover_pairs(axes: Mapping[str, Sequence[Any]], affordable: Callable[[Row], bool]) -> list[Row]:
    """Greedy and deterministic. `affordable` also judges rows with axes missing, which must then count as cheapest:
    a pair that it refuses is left out, and every other pair is in some row.

    Each row starts with a pair not seen yet and takes, axis by axis, the affordable value that adds most new pairs.
    """
    missing = feasible_pairs(axes, affordable)
    used: Counter[Cell] = Counter()
    rows: list[Row] = []
    while missing:
        cells = dict(next(iter(missing)))
        for name in axes:
            if name not in cells:
                cells[name] = best_index(axes, cells, name, affordable, missing, used)
        for pair in pairs_of(cells.items()):
            missing.pop(pair, None)
        used.update(cells.items())
        rows.append(values_of(axes, cells))
    return rows


def feasible_pairs(axes: Mapping[str, Sequence[Any]], affordable: Callable[[Row], bool]) -> dict[frozenset[Cell], None]:
    """All pairs that a row can hold, in axis order."""
    cells = {name: [(name, index) for index in range(len(values))] for name, values in axes.items()}
    return {
        frozenset(pair): None
        for a, b in combinations(axes, 2)
        for pair in product(cells[a], cells[b])
        if affordable(values_of(axes, dict(pair)))
    }


def best_index(
    axes: Mapping[str, Sequence[Any]],
    cells: Mapping[str, int],
    name: str,
    affordable: Callable[[Row], bool],
    missing: Mapping[frozenset[Cell], None],
    used: Counter[Cell],
) -> int:
    """The value of axis `name` that adds most new pairs to the row; among equals the one used least."""
    allowed = [i for i in range(len(axes[name])) if affordable(values_of(axes, {**cells, name: i}))]
    if not allowed:
        raise ValueError(f"no value of {name} is affordable beside {values_of(axes, cells)}")

    def gain(index: int) -> tuple[int, int]:
        new = sum(frozenset(((name, index), cell)) in missing for cell in cells.items())
        return new, -used[name, index]

    return max(allowed, key=gain)


def pairs_of(cells: Iterable[Cell]) -> Iterable[frozenset[Cell]]:
    return map(frozenset, combinations(cells, 2))


def values_of(axes: Mapping[str, Sequence[Any]], cells: Mapping[str, int]) -> Row:
    return {name: axes[name][index] for name, index in cells.items()}
