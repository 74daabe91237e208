"""Runs the read-ceiling kernel on random bytes and checks the checksum it keeps."""

from __future__ import annotations

from sparkctl.registry.model import Variant
from sparkctl.testing.model import StreamCase, case_seed
from sparkctl.testing.prepare import Target


def run_stream(target: Target, variant: Variant, case: StreamCase) -> str | None:
    """What is wrong, or None."""
    import numpy

    words = numpy.random.default_rng(case_seed(case, target.seed)).integers(
        0, 2**32, case.size_bytes // 4, dtype=numpy.uint32
    )
    raise NotImplementedError(words)
