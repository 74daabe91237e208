"""A library and slots on the CPU: decode and read are torch, the variants those of the registry."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparkctl.bench.axes import DecodeCase, Heads
from sparkctl.bench.buffers import Slots, allocate_slots, xor_words
from sparkctl.registry import find_project, load_registry, select_variants
from sparkctl.runtime import BuiltVariant, Library, Manifest

CASE = DecodeCase(batch=2, kv_len=200, heads=Heads(8, 2), head_dim=64)


class FakeModule:
    """Decodes and reads with torch and keeps the arguments; while `tape` is a list, calls go on it and do not run."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.tape: list[Callable[[], None]] | None = None

    def get_function(self, name: str) -> Any:
        entry = {"decode": self.decode, "paged_decode": self.paged_decode, "stream_read": self.stream_read}[name]

        def call(*args: Any) -> None:
            if self.tape is None:
                entry(*args)
            else:
                self.tape.append(lambda: entry(*args))

        return call

    def decode(self, *args: Any) -> None:
        import torch

        self.calls.append(args)
        _, _, q, k, v, _, out, _, _, _, _, scale, *_ = args
        heads = (tensor.transpose(1, 2).float() for tensor in (q, k, v))
        result = torch.nn.functional.scaled_dot_product_attention(*heads, scale=scale, enable_gqa=True)
        out.copy_(result.transpose(1, 2))

    def paged_decode(
        self, variant: int, combine: int, q: Any, k: Any, v: Any, table: Any, lens: Any, *rest: Any
    ) -> None:
        """Gathers the pages and decodes."""
        length = int(lens[0])
        k, v = (pages[table.long()].flatten(1, 2)[:, :length] for pages in (k, v))
        self.decode(variant, combine, q, k, v, None, *rest)

    def stream_read(self, index: int, raw: Any, checksum: Any) -> None:
        checksum.zero_()
        word = xor_words(raw)
        checksum[-1] = word - 2**32 if word >= 2**31 else word


@pytest.fixture
def library() -> Library:
    registry = load_registry(find_project(None))
    where = {"dtype": ["bf16"], "head_dim": ["64"]}
    built = tuple(
        BuiltVariant(
            name=v.name,
            kernel=v.kernel.name,
            family=v.kernel.family,
            values=dict(v.values),
            accepts={name: (span.start, span.stop) for name, span in v.kernel.accepts.items()},
            block_threads=v.block_threads,
            dynamic_smem_bytes=v.dynamic_smem_bytes,
            static_smem_bytes=0,
            registers=64,
            blocks_per_sm=2,
        )
        for v in select_variants(registry, where=where)
    )
    manifest = Manifest("libsparkctl.so", "cuda", "sm_90", "release", {}, "d", "nvcc", built)
    return Library(Path("build"), manifest, FakeModule(), {v.name: i for i, v in enumerate(built)})


@pytest.fixture
def slots() -> Slots:
    return allocate_slots(CASE, 2, device="cpu")
