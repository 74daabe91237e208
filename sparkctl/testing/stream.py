"""Runs the read-ceiling kernel on random bytes and checks the checksum that it keeps."""

from __future__ import annotations

from sparkctl.registry.model import Variant
from sparkctl.testing.guard import MARGIN
from sparkctl.testing.model import StreamCase, case_seed
from sparkctl.testing.prepare import Target

POISON = 0x5A5A5A5A


def run_stream(target: Target, variant: Variant, case: StreamCase) -> str | None:
    """What is wrong, or None."""
    import numpy
    import torch

    generator = numpy.random.default_rng(case_seed(case, target.seed))
    words = generator.integers(0, 2**32, case.size_bytes // 4, dtype=numpy.uint32)
    data = torch.from_numpy(words.view(numpy.int32)).to(target.device)
    storage = torch.full((case.blocks + 2 * MARGIN,), POISON, dtype=torch.int32, device=target.device)
    library = target.library
    index = library.index[library.variant(variant.name).name]
    library.function("stream_read")(index, data, storage[MARGIN : MARGIN + case.blocks])
    found = storage.cpu().numpy().view(numpy.uint32)
    expected = int(numpy.bitwise_xor.reduce(words)) if len(words) else 0
    got = int(numpy.bitwise_xor.reduce(found[MARGIN : MARGIN + case.blocks]))
    if got != expected:
        return f"checksum: got {got:#010x}, expected {expected:#010x}"
    strays = int((found[:MARGIN] != POISON).sum() + (found[MARGIN + case.blocks :] != POISON).sum())
    return f"{strays} checksums were written outside of the array" if strays else None
