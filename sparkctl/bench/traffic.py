"""The bytes a case must move and the operations it must do: what bandwidths and floors are computed from. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from sparkctl.bench.axes import ELEMENT_BYTES, DecodeCase
from sparkctl.bench.call_options import PLAIN, CallOptions

TABLE_ENTRY_BYTES = 4  # int32
LSE_BYTES = 4  # fp32


@dataclass(frozen=True, slots=True)
class Traffic:
    """The least work of a case: bytes through DRAM and floating-point operations on tensor cores."""

    kv_bytes: int
    q_bytes: int
    out_bytes: int
    flops: int
    table_bytes: int = 0  # page ids and lengths of a paged case

    @property
    def bytes(self) -> int:
        """K, V, q, out and the page table, each byte once."""
        return self.kv_bytes + self.q_bytes + self.out_bytes + self.table_bytes


def decode_traffic(case: DecodeCase, options: CallOptions = PLAIN) -> Traffic:
    """The work of one decode. Behind a window only the keys that some query sees count, and lse is 4 bytes a row.

    keys  = Σ kv_len over the sequences, each with its own.
    bytes = 2 · keys · num_kv_heads · head_dim · 2 (K and V, each byte once, whatever the group)
          + 2 · batch · qo_len · num_qo_heads · head_dim · 2 (q read, out written)
          + 4 · (Σ ceil(kv_len / page_size) + batch) where paged (int32 page ids, and the lengths),
            4 · batch where contiguous with a length for each sequence.
    flops = 4 · num_qo_heads · head_dim · Σ pairs: a multiply and an add for QKᵀ, and again for PV.
    pairs = qo_len · kv_len, or with a causal mask the sum over i < qo_len of (kv_len − qo_len + 1 + i), the mask being
    aligned to the bottom right. The partial results of a split run are this kernel's own cost, so they are not counted.
    """
    row_bytes = case.head_dim * ELEMENT_BYTES
    query_bytes = case.batch * row_bytes * case.qo_len * case.heads.num_qo_heads
    entries = case.total_pages + (case.batch if case.has_lengths else 0)
    pairs = sum(visible_pairs(case, length, options.window) for length in case.lengths)
    keys = sum(options.seen(length, case.qo_len) for length in case.lengths)
    lse_bytes = LSE_BYTES * case.batch * case.qo_len * case.heads.num_qo_heads if options.lse else 0
    return Traffic(
        kv_bytes=2 * row_bytes * keys * case.heads.num_kv_heads,
        q_bytes=query_bytes,
        out_bytes=query_bytes + lse_bytes,
        flops=4 * case.heads.num_qo_heads * case.head_dim * pairs,
        table_bytes=TABLE_ENTRY_BYTES * entries,
    )


def visible_pairs(case: DecodeCase, kv_len: int, window: int | None = None) -> int:
    """Query-key pairs that one head of a sequence of that length computes; a window hides what lies further back."""
    if window is not None:
        places = range(kv_len - case.qo_len, kv_len)  # of the queries, which are the last positions
        ends = [max(0, place + 1) if case.causal else kv_len for place in places]
        return sum(max(0, end - max(0, place - window)) for place, end in zip(places, ends, strict=True))
    if not case.causal:
        return case.qo_len * kv_len
    first = kv_len - case.qo_len + 1  # keys that query 0 sees; below 1 it sees none
    seeing = min(case.qo_len, kv_len)  # queries that see a key: the last ones
    return seeing * (max(first, 1) + kv_len) // 2


def bandwidth_tbps(bytes_moved: int, time_us: float) -> float:
    """TB/s, with 1 TB = 10¹² bytes as datasheets count."""
    return bytes_moved / time_us * 1e-6
