"""Stand-ins for the libraries that bench compares with: they compute with torch on the CPU and keep the arguments."""

from __future__ import annotations

from itertools import pairwise
from types import ModuleType
from typing import Any

import torch

from sparkctl.bench.axes import DecodeCase
from sparkctl.bench.buffers import Slots, allocate_slots
from sparkctl.bench.peers import PEERS, PeerArm
from sparkctl.workflows.bench_verify import verify_outputs


def attend(q: Any, k: Any, v: Any, scale: float, causal: bool) -> Any:
    """[batch, len, heads, dim], masked to the bottom right."""
    mask = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool)
    mask = mask.tril(k.shape[1] - q.shape[1]) if causal else mask
    rows = (t.transpose(1, 2).float() for t in (q, k, v))
    out = torch.nn.functional.scaled_dot_product_attention(*rows, attn_mask=mask, scale=scale, enable_gqa=True)
    return out.transpose(1, 2).to(q.dtype)


def gather(pages: Any, table: Any, length: int) -> Any:
    return pages[table.long()].flatten(1, 2)[:, :length]


def arm_of(peer: str, name: str, case: DecodeCase, slots: Slots | None = None) -> tuple[PeerArm, Slots]:
    slots = slots or allocate_slots(case, 2, device="cpu")
    return next(arm for arm in PEERS[peer](case, slots) if arm.name == name), slots


def check_every_slot(arm: PeerArm, case: DecodeCase, slots: Slots) -> None:
    """Right on each slot, and the answers of all slots side by side in memory."""
    assert arm.call is not None, arm.reason
    outs = [arm.call(slot) for slot in range(slots.count)]
    for slot, out in enumerate(outs):
        (verdict,) = verify_outputs(case, slots.q[slot], *slots.keys(case, slot), [out])
        assert verdict.worst <= 4.0, verdict.text


class FakeFa3(ModuleType):
    def __init__(self) -> None:
        super().__init__("fa3_fwd_interface")
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def flash_attn_with_kvcache(self, *args: Any, **options: Any) -> Any:
        self.calls.append((args, options))
        q, k, v = args
        if "page_table" in options:
            k, v = (pages[options["page_table"].long()].flatten(1, 2) for pages in (k, v))
        lens = options.get("cache_seqlens", torch.tensor([k.shape[1]] * q.shape[0]))
        rows = zip(q.split(1), k.split(1), v.split(1), lens.tolist(), strict=True)
        scale, causal = options["softmax_scale"], options["causal"]
        return torch.cat([attend(q1, k1[:, :n], v1[:, :n], scale, causal) for q1, k1, v1, n in rows])


class FakeWrapper:
    """BatchDecodeWithPagedKVCacheWrapper and its sister for prefill, as much as is used of them."""

    def __init__(self, library: FakeFlashInfer, kind: str, workspace: Any, layout: str, **options: Any) -> None:
        assert not workspace.any()
        self.kind, self.layout, self.options, self.runs = kind, layout, options, 0
        library.wrappers.append(self)

    def plan(self, *args: Any, **options: Any) -> None:
        assert not self.runs
        args = args if self.kind == "prefill" else (None, *args)
        self.qo_indptr, self.indptr, self.indices, self.last, *self.sizes = args
        self.planned = options

    def run(self, q: Any, keys: Any, *, out: Any) -> Any:
        self.runs += 1
        batch, page = len(self.last), self.sizes[3]
        rows, outs = q.view(batch, -1, *q.shape[1:]), out.view(batch, -1, *q.shape[1:])
        if self.kind == "prefill":
            assert self.qo_indptr.tolist() == [rows.shape[1] * i for i in range(batch + 1)]
        assert len(self.indices) == self.indptr[-1]
        for b, (first, end) in enumerate(pairwise(self.indptr.tolist())):
            length = (end - first - 1) * page + int(self.last[b])
            k, v = (gather(pages, self.indices[first:end].view(1, -1), length) for pages in keys)
            one = slice(b, b + 1)
            outs[one] = attend(rows[one], k, v, self.planned["sm_scale"], self.planned.get("causal", False))
        return out


class FakeFlashInfer(ModuleType):
    def __init__(self) -> None:
        super().__init__("flashinfer")
        self.__path__: list[str] = []
        self.decode = ModuleType("flashinfer.decode")
        self.decode.xqa_batch_decode_with_kv_cache = self.xqa  # type: ignore[attr-defined]
        self.wrappers: list[FakeWrapper] = []
        self.xqa_calls: list[tuple[Any, ...]] = []

    def BatchDecodeWithPagedKVCacheWrapper(self, *args: Any, **options: Any) -> FakeWrapper:  # noqa: N802
        return FakeWrapper(self, "decode", *args, **options)

    def BatchPrefillWithPagedKVCacheWrapper(self, *args: Any, **options: Any) -> FakeWrapper:  # noqa: N802
        return FakeWrapper(self, "prefill", *args, **options)

    def xqa(self, q: Any, keys: Any, workspace: Any, table: Any, lens: Any, most: int, **options: Any) -> None:
        self.xqa_calls.append((q, keys, table, lens, most, options))
        for b, length in enumerate(lens.view(torch.int32).tolist()):
            k, v = (gather(pages, table[b : b + 1], length) for pages in keys)
            options["out"][b] = attend(q[b].view(1, 1, *q.shape[1:]), k, v, options["bmm1_scale"], False).view(
                q[b].shape
            )
