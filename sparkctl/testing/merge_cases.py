"""The cases of the kernel that merges states: made-up results, some of which saw no key."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from sparkctl.testing.cover import cover_pairs
from sparkctl.testing.model import Grid, MergeCase, StateLayout, StatePattern

PATTERNS: tuple[StatePattern, ...] = (
    "live",
    "empty_first",
    "empty_middle",
    "empty_last",
    "one_live",
    "all_empty",
    "row_empty",
    "far_apart",
)
LAYOUTS: tuple[StateLayout, ...] = ("contiguous", "heads_first", "padded", "states_inside")

AXES: Mapping[str, Sequence[Any]] = {
    "pattern": PATTERNS,
    "num_states": (1, 2, 3, 5, 8, 33, 70),
    "num_qo_heads": (1, 3, 32),
    "qo_len": (1, 3, 17, 40),
    "batch": (1, 3),
    "layout": LAYOUTS,
    "in_place": (False, True),
}
# Rows times states that a case may merge on the emulator.
EMULATOR_STATES = 3000


@lru_cache
def merge_cases(grid: Grid) -> tuple[MergeCase, ...]:
    """A pairwise cover and named cases; the larger grids add larger ones."""
    rows = cover_pairs(AXES, lambda row: states(row) <= EMULATOR_STATES)
    cases = [MergeCase(**row) for row in rows]
    cases += [MergeCase(1, 1, 32, count, label="model_shape") for count in (2, 4)]
    cases += [MergeCase(2, 3, 5, 3, pattern, label="few_states") for pattern in PATTERNS]
    if grid != "quick":
        cases += [MergeCase(2, 33, 16, count, pattern, label="larger") for count in (2, 5) for pattern in PATTERNS]
    if grid == "device":
        cases += [
            MergeCase(2, 4096, 32, count, layout=layout, label="device") for count in (2, 3) for layout in LAYOUTS
        ]
        cases += [MergeCase(3, 16, 128, 33, pattern, label="device") for pattern in PATTERNS]
    return tuple(dict.fromkeys(cases))


def states(row: Mapping[str, Any]) -> int:
    """Rows that a row of axis values merges; an axis that is not there counts 1."""
    return math.prod(int(row.get(name, 1)) for name in ("num_states", "num_qo_heads", "qo_len", "batch"))
