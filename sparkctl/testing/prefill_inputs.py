"""Makes a prefill case's tensors on a device, and the same sequences one by one for the reference."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparkctl.testing.inputs import (
    LARGE_SCORE,
    make_mask,
    make_sinks,
    place_in_pages,
    place_kv,
    place_q,
    torch_dtype,
)
from sparkctl.testing.model import PrefillCase, case_seed

if TYPE_CHECKING:
    from torch import Tensor

    from sparkctl.ops.prefill_inputs import PrefillInputs


@dataclass(frozen=True, slots=True)
class PaddedSequences:
    """The values of a case, padded: q [batch, qo_len, …], k and v [batch, kv_capacity, …], NaN where nobody reads."""

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Tensor | None
    sinks: Tensor | None


def make_prefill_inputs(
    case: PrefillCase, dtype: str, head_dim: int, device: str, seed: int = 0
) -> tuple[PrefillInputs, PaddedSequences]:
    """What the operator takes, and what it stands for. MemoryError where the device has too little memory free."""
    import torch

    from sparkctl.ops.prefill_inputs import PrefillInputs

    generator = torch.Generator(device).manual_seed(case_seed(case, seed))
    padded = make_sequences(case, dtype, head_dim, device, generator)
    q, k, v = padded.q, padded.k, padded.v
    kv_lens = None if case.slack is None else torch.tensor(case.kv_lens, dtype=torch.int32, device=device)
    qo_indptr, kv_indptr, table = None, None, None
    if case.packed_q:
        q, qo_indptr = pack(q, case.qo_lens)
    if case.packed_kv:
        (k, kv_indptr), (v, _) = pack(k, case.kv_lens), pack(v, case.kv_lens)
    q = place_q(q, case.layout)
    if case.page_size is not None:
        pages = place_in_pages(k, v, case, generator)
        k, v, table = pages.k, pages.v, pages.table
    else:
        k, v = place_kv(k, v, case.layout)
    if case.packed_q:
        q = q[0]
    if case.packed_kv:
        k, v = k[0], v[0]
    return PrefillInputs(q, k, v, table, kv_lens, qo_indptr, kv_indptr), padded


def make_sequences(case: PrefillCase, dtype: str, head_dim: int, device: str, generator: Any) -> PaddedSequences:
    """Random values; keys that no query sees are NaN."""
    import torch

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, device=device, dtype=torch.float32)

    q = random(case.batch, case.qo_len, case.num_qo_heads, head_dim)
    k, v = (random(case.batch, case.kv_capacity, case.num_kv_heads, head_dim) for _ in range(2))
    if case.logits == "large":
        q *= LARGE_SCORE / (3.5 * math.sqrt(head_dim))  # the largest of some hundred q·k is about 3.5 deviations
    lens, first = (torch.tensor(keys, device=device)[:, None] for keys in (case.kv_lens, case.first_keys))
    key = torch.arange(case.kv_capacity, device=device)
    unseen = ((key >= lens) | (key < first))[:, :, None, None]
    if case.label == "shared_pages" and case.page_size is not None:
        k[:, : case.page_size], v[:, : case.page_size] = k[:1, : case.page_size], v[:1, : case.page_size]
    k, v = k.masked_fill(unseen, math.nan), v.masked_fill(unseen, math.nan)
    mask = make_mask(case, generator, device)
    sinks = make_sinks(case.num_qo_heads, generator, device) if case.sinks else None
    q, k, v = (tensor.to(torch_dtype(dtype)) for tensor in (q, k, v))
    return PaddedSequences(q, k, v, mask, sinks)


def pack(padded: Tensor, lens: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """([1, total, heads, head_dim], indptr) of padded sequences."""
    import torch

    packed = torch.cat([sequence[:length] for sequence, length in zip(padded, lens, strict=True)])[None]
    return packed, torch.tensor([0, *lens], device=padded.device).cumsum(0).to(torch.int32)


def sequences_of(case: PrefillCase, padded: PaddedSequences) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor | None]]:
    """(q, k, v, mask) of every sequence, of batch 1 and its own lengths."""
    for b, (qo_len, kv_len) in enumerate(zip(case.qo_lens, case.kv_lens, strict=True)):
        one = slice(b, b + 1)
        mask = padded.mask
        if mask is not None:
            mask = mask if mask.dim() == 2 else mask[one]
            mask = mask[..., : 1 if mask.shape[-2] == 1 and qo_len > 0 else qo_len, :kv_len]
        yield padded.q[one, :qo_len], padded.k[one, :kv_len], padded.v[one, :kv_len], mask
