"""Which files a plan's edges were made from, as the build itself recorded them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sparkctl.build.model import BuildPlan
from sparkctl.build.state import load_state


def read_inputs(plans: Iterable[BuildPlan]) -> frozenset[Path]:
    """Each edge's source, and what its compiler read when it was last built: the project's headers, no toolkit's.

    Of an edge that was never built only the source is known.
    """
    found: set[Path] = set()
    for plan in plans:
        records = load_state(plan.folder).edges
        for edge in plan.edges:
            record = records.get(edge.name)
            found |= {plan.root / path for path in (edge.source, *(record.inputs if record else ()))}
    return frozenset(found)
