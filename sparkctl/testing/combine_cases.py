"""The cases of the combine kernel: made-up partials with empty splits in every place."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from sparkctl.testing.cover import cover_pairs
from sparkctl.testing.model import CombineCase, Grid, SplitPattern

PATTERNS: tuple[SplitPattern, ...] = (
    "live",
    "empty_first",
    "empty_middle",
    "empty_last",
    "one_live",
    "all_empty",
    "row_empty",
    "zero_sum",
    "far_apart",
)

AXES: Mapping[str, Sequence[Any]] = {
    "pattern": PATTERNS,
    "num_splits": (1, 2, 3, 7, 8, 33, 129),
    "num_qo_heads": (1, 3, 8, 40),
    "qo_len": (1, 2, 16),
    "batch": (1, 3),
    "padded_out": (False, True),
    "sinks": (False, True),
}
# Rows times splits that a case may merge: the emulator merges about one a microsecond.
EMULATOR_PARTIALS = 6000


@lru_cache
def combine_cases(grid: Grid) -> tuple[CombineCase, ...]:
    """A pairwise cover and named cases; the larger grids add larger ones."""
    rows = cover_pairs(AXES, lambda row: partials(row) <= EMULATOR_PARTIALS and has_weight(row))
    cases = [CombineCase(**row) for row in rows]
    cases += [CombineCase(1, 1, 32, splits, label="model_shape") for splits in (1, 4, 16, 64)]
    cases += [CombineCase(2, 1, 5, 3, pattern, label="few_splits") for pattern in PATTERNS]
    cases += [CombineCase(2, 1, 5, splits, "all_empty", sinks=True, label="sinks_without_keys") for splits in (1, 3)]
    cases += [CombineCase(2, 1, 5, splits, sinks=True, label="sinks_once") for splits in (1, 2, 33)]
    if grid != "quick":
        cases += [CombineCase(2, 2, 16, splits, pattern, label="larger") for splits in (16, 64) for pattern in PATTERNS]
    if grid == "device":
        cases += [CombineCase(8, 1, 32, splits, label="device") for splits in (1, 16, 64, 200)]
        cases += [CombineCase(3, 16, 128, 33, pattern, label="device") for pattern in PATTERNS]
    return tuple(dict.fromkeys(cases))


def partials(row: Mapping[str, Any]) -> int:
    """Partial results that a row of axis values merges; an axis that is not there counts 1."""
    return math.prod(int(row.get(name, 1)) for name in ("num_splits", "num_qo_heads", "qo_len", "batch"))


def has_weight(row: Mapping[str, Any]) -> bool:
    """Whether no row can be so light beside its sink that its output is below the dtype's numbers."""
    return not (row.get("sinks") and row.get("pattern") == "far_apart")
