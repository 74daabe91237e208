"""What must not change a bit of prefill: pages, and packing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from sparkctl import ops
from sparkctl.build import DEFAULT_ARCH, ensure_built
from sparkctl.registry import find_project, load_registry, select_variants
from sparkctl.runtime import Library, load_library

KERNELS = ["attn_prefill_split_q", "attn_prefill_split_q_mma"]
CHOSEN = {"head_dim": ["64"], "dtype": ["bf16"]}
LENS = (0, 100, 97)
OPTIONS: list[dict[str, Any]] = [{}, {"causal": True}, {"causal": True, "window": 20, "softcap": 3.0}]


@pytest.fixture(scope="module")
def built() -> Library:
    registry = load_registry(find_project() / "flags.yaml")
    variants = select_variants(registry, KERNELS, arch=DEFAULT_ARCH, where=CHOSEN)
    return load_library(ensure_built(registry, variants, arch=DEFAULT_ARCH, backend="emulator"))


@pytest.fixture
def library(built: Library) -> Iterator[Library]:
    built.configure_emulator()
    yield built
    built.configure_emulator()


def rand(*size: int) -> torch.Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(sum(size))).bfloat16()


def indptr(*lens: int) -> torch.Tensor:
    return torch.tensor([0, *lens]).cumsum(0).int()


def assert_same_bits(a: tuple[torch.Tensor, ...], b: tuple[torch.Tensor, ...]) -> None:
    for x, y in zip(a, b, strict=True):
        bits = torch.int16 if x.element_size() == 2 else torch.int32
        assert torch.equal(x.reshape(y.shape).view(bits), y.view(bits))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("page_size", [1, 16, 24, 256])
@pytest.mark.parametrize("shuffled", [False, True])
def test_pages_change_no_bit(library: Library, kernel: str, page_size: int, shuffled: bool) -> None:
    entries = -(-max(LENS) // page_size)
    count = len(LENS) * entries
    order = torch.randperm(count, generator=torch.Generator().manual_seed(5)) if shuffled else torch.arange(count)
    table = order.view(len(LENS), entries).int()
    q = rand(3, 33, 6, 64)
    pages = [rand(count, page_size, 2, 64) for _ in range(2)]
    k, v = (tensor[table.long()].flatten(1, 2).contiguous() for tensor in pages)
    options = {
        "kv_lens": torch.tensor(LENS, dtype=torch.int32),
        "causal": True,
        "return_lse": True,
        "kernel": kernel,
        "library": library,
    }
    contiguous = ops.prefill(q, k, v, **options)
    assert_same_bits(ops.prefill(q, *pages, page_table=table, **options), contiguous)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("options", OPTIONS)
def test_packing_equal_lengths_changes_no_bit(library: Library, kernel: str, options: dict[str, Any]) -> None:
    q, k, v = rand(2, 45, 6, 64), rand(2, 100, 2, 64), rand(2, 100, 2, 64)
    options = {**options, "return_lse": True, "kernel": kernel, "library": library}
    dense = ops.prefill(q, k, v, **options)
    queries, keys = {"qo_indptr": indptr(45, 45)}, {"kv_indptr": indptr(100, 100)}
    packed_q, packed_k, packed_v = (tensor.flatten(0, 1) for tensor in (q, k, v))
    assert_same_bits(ops.prefill(packed_q, packed_k, packed_v, **queries, **keys, **options), dense)
    assert_same_bits(ops.prefill(packed_q, k, v, **queries, **options), dense)
    assert_same_bits(ops.prefill(q, packed_k, packed_v, **keys, **options), dense)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_sequences_of_a_ragged_batch_are_computed_as_if_alone(library: Library, kernel: str) -> None:
    qo_lens, kv_lens = (45, 0, 7, 1), (45, 20, 90, 1)
    q, k, v = rand(sum(qo_lens), 6, 64), rand(sum(kv_lens), 2, 64), rand(sum(kv_lens), 2, 64)
    options = {"causal": True, "return_lse": True, "kernel": kernel, "library": library}
    starts, key_starts = indptr(*qo_lens), indptr(*kv_lens)
    out, lse = ops.prefill(q, k, v, qo_indptr=starts, kv_indptr=key_starts, max_qo_len=64, **options)
    for b in range(4):
        rows, keys = slice(starts[b], starts[b + 1]), slice(key_starts[b], key_starts[b + 1])
        assert_same_bits((out[rows], lse[rows]), ops.prefill(q[None, rows], k[None, keys], v[None, keys], **options))


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_nan_in_a_key_that_is_seen_reaches_every_row_that_sees_it(library: Library, kernel: str) -> None:
    q, k, v = rand(1, 20, 4, 64), rand(1, 90, 2, 64), rand(1, 90, 2, 64)
    k[0, 80, 1, 5] = float("nan")  # seen by the queries from the eleventh on, of the second kv head
    out = ops.prefill(q, k, v, causal=True, kernel=kernel, library=library)
    is_nan = out.isnan().all(-1)[0]
    assert is_nan.tolist() == [[False, False, i >= 10, i >= 10] for i in range(20)]
    assert torch.equal(out.isnan().any(-1)[0], is_nan)


def test_pages_are_not_taken_by_a_variant_without_them(library: Library) -> None:
    pages, table = rand(4, 16, 2, 64), torch.arange(4, dtype=torch.int32)[None]
    with pytest.raises(ValueError, match="takes contiguous or packed k and v, not what the call has"):
        ops.prefill(
            rand(1, 9, 4, 64),
            pages,
            pages,
            page_table=table,
            kv_lens=torch.tensor([60], dtype=torch.int32),
            variant="attn_prefill_split_q.bf16.d64",
            library=library,
        )
