"""The bytes a case must move and the operations it must do: what bandwidths and floors are computed from. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from sparkctl.bench.axes import ELEMENT_BYTES, DecodeCase

TABLE_ENTRY_BYTES = 4  # int32


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


def decode_traffic(case: DecodeCase) -> Traffic:
    """The work of one decode.

    bytes = 2 · batch · kv_len · num_kv_heads · head_dim · 2 (K and V, each byte once, whatever the group)
          + 2 · batch · qo_len · num_qo_heads · head_dim · 2 (q read, out written)
          + 4 · batch · (ceil(kv_len / page_size) + 1) where paged (int32 page ids, and the length).
    flops = 4 · batch · num_qo_heads · head_dim · pairs: a multiply and an add for QKᵀ, and again for PV.
    pairs = qo_len · kv_len, or with a causal mask the sum over i < qo_len of (kv_len − qo_len + 1 + i), the mask being
    aligned to the bottom right. The partial results of a split run are this kernel's own cost, so they are not counted.
    """
    row_bytes = case.batch * case.head_dim * ELEMENT_BYTES
    query_bytes = row_bytes * case.qo_len * case.heads.num_qo_heads
    return Traffic(
        kv_bytes=2 * row_bytes * case.kv_len * case.heads.num_kv_heads,
        q_bytes=query_bytes,
        out_bytes=query_bytes,
        flops=4 * case.batch * case.heads.num_qo_heads * case.head_dim * visible_pairs(case),
        table_bytes=0 if case.page_size is None else TABLE_ENTRY_BYTES * case.batch * (case.pages + 1),
    )


def visible_pairs(case: DecodeCase) -> int:
    """Query-key pairs that one head of one sequence computes."""
    if not case.causal:
        return case.qo_len * case.kv_len
    first = case.kv_len - case.qo_len + 1  # keys that query 0 sees; below 1 it sees none
    return sum(max(0, first + i) for i in range(case.qo_len))


def bandwidth_tbps(bytes_moved: int, time_us: float) -> float:
    """TB/s, with 1 TB = 10¹² bytes as datasheets count."""
    return bytes_moved / time_us * 1e-6
