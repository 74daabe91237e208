"""The registered operators on a device: torch's checks, CUDA graphs, torch.compile, and that nothing is allocated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.library import opcheck

from sparkctl import ops
from sparkctl.ops.fallback import attention_torch, gather_pages
from sparkctl.ops.options import AttentionOptions

pytestmark = pytest.mark.gpu

SPLITS = 8
PAGE_SIZE, ENTRIES = 64, 20
CAPACITY = PAGE_SIZE * ENTRIES
LENS = ([CAPACITY, 64, 0], [1, CAPACITY - 1, 513], [0, 0, 0], [65, 640, 1])
Tensors = dict[str, torch.Tensor]


@pytest.fixture
def tensors() -> Tensors:
    """q, the same keys contiguous and in shuffled pages, short lengths."""
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    torch._dynamo.reset()
    ops.register()
    generator = torch.Generator(device="cuda").manual_seed(5)

    def rand(*size: int) -> torch.Tensor:
        return torch.randn(*size, device="cuda", generator=generator).bfloat16()

    order = torch.randperm(3 * ENTRIES, device="cuda", generator=generator)
    pages = {f"{name}_pages": rand(3 * ENTRIES, PAGE_SIZE, 8, 128) for name in "kv"}
    table = order.view(3, ENTRIES).int()
    contiguous = {name: pages[f"{name}_pages"][table.long()].flatten(1, 2).contiguous() for name in "kv"}
    lens = torch.tensor([1, 1, 1], dtype=torch.int32, device="cuda")
    return {"q": rand(3, 1, 32, 128), **contiguous, **pages, "page_table": table, "kv_lens": lens}


def reference(t: Tensors) -> torch.Tensor:
    return attention_torch(
        t["q"], t["k"], t["v"], kv_lens=t["kv_lens"], options=AttentionOptions(t["q"].shape[-1] ** -0.5)
    )[0]


def room(q: torch.Tensor) -> Tensors:
    space = ops.allocate_workspace(q, SPLITS)
    lse = torch.empty(q.shape[:3], device="cuda")
    parts = {"part_acc": space.part_acc, "part_max": space.part_max, "part_sum": space.part_sum}
    return {"out": torch.empty_like(q), "lse": lse, **parts}


def decode_out(t: Tensors, given: Tensors) -> None:
    torch.ops.sparkctl.decode_out(t["q"], t["k"], t["v"], t["kv_lens"], **given)


def paged_decode_out(t: Tensors, given: Tensors) -> None:
    inputs = (t[name] for name in ("q", "k_pages", "v_pages", "page_table", "kv_lens"))
    torch.ops.sparkctl.paged_decode_out(*inputs, **given)


def prefill_out(t: Tensors, given: Tensors) -> None:
    results = {name: given[name] for name in ("out", "lse")}
    torch.ops.sparkctl.prefill_out(t["q"], t["k"], t["v"], kv_lens=t["kv_lens"], **results)


FORMS = {"decode_out": decode_out, "paged_decode_out": paged_decode_out, "prefill_out": prefill_out}


def assert_near(out: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(out.float(), expected.float(), atol=2e-2, rtol=2e-2)


def captured(call: Callable[[], Any]) -> torch.cuda.CUDAGraph:
    """A graph of the call, after one call on another stream that loads what is loaded once."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph


@pytest.mark.parametrize("name", list(FORMS))
def test_a_graph_captured_short_replays_long(tensors: Tensors, name: str) -> None:
    given = room(tensors["q"])
    graph = captured(lambda: FORMS[name](tensors, given))
    for lens in LENS:
        tensors["kv_lens"].copy_(torch.tensor(lens, dtype=torch.int32))
        for tensor in given.values():
            tensor.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        assert_near(given["out"], reference(tensors))
        assert torch.equal(given["lse"][..., 0].isinf()[:, 0], tensors["kv_lens"] == 0)


def test_a_graph_of_two_halves_and_their_merge_replays(tensors: Tensors) -> None:
    q, k, v = tensors["q"], tensors["k"], tensors["v"]
    half = CAPACITY // 2
    out, lse = torch.empty(2, *q.shape, device="cuda").bfloat16(), torch.empty(2, *q.shape[:3], device="cuda")
    merged, merged_lse = torch.empty_like(q), torch.empty(q.shape[:3], device="cuda")
    parts = [{**room(q), "out": out[i], "lse": lse[i]} for i in range(2)]

    def call() -> None:
        for i in range(2):
            keys = slice(i * half, (i + 1) * half)
            torch.ops.sparkctl.decode_out(q, k[:, keys], v[:, keys], None, **parts[i])
        torch.ops.sparkctl.merge_states_out(out, lse, out_=merged, lse_=merged_lse)

    graph = captured(call)
    for _ in range(2):
        q.normal_()
        merged.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        whole, whole_lse = ops.decode(q, k, v, return_lse=True)
        assert_near(merged, whole)
        torch.testing.assert_close(merged_lse, whole_lse, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("name", list(FORMS))
def test_a_call_into_given_tensors_allocates_nothing_and_waits_for_nothing(tensors: Tensors, name: str) -> None:
    given = room(tensors["q"])
    FORMS[name](tensors, given)
    torch.cuda.synchronize()
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    torch.cuda.set_sync_debug_mode("error")
    try:
        FORMS[name](tensors, given)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before


def model_step(t: Tensors) -> tuple[torch.Tensor, ...]:
    q = t["q"] * 0.5
    one = ops.decode(q, t["k"], t["v"], kv_lens=t["kv_lens"], return_lse=True)
    two = ops.paged_decode(q, t["k_pages"], t["v_pages"], t["page_table"], t["kv_lens"], return_lse=True)
    three = ops.prefill(q, t["k"], t["v"], kv_lens=t["kv_lens"], return_lse=True)
    out, lse = ops.merge_states([one[0], two[0], three[0]], [one[1], two[1], three[1]])
    return one[0], two[0], three[0], out + 1, lse


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled_calls_give_the_bits_of_eager_ones(tensors: Tensors, mode: str) -> None:
    step = torch.compile(model_step, fullgraph=True, mode=mode)
    for lens in LENS:
        tensors["kv_lens"].copy_(torch.tensor(lens, dtype=torch.int32))
        for got, expected in zip(step(tensors), model_step(tensors), strict=True):
            assert torch.equal(got.view(torch.uint8), expected.view(torch.uint8))


@pytest.mark.parametrize("name", ["decode_out", "paged_decode_out"])
def test_torch_finds_no_fault_in_an_operator(tensors: Tensors, name: str) -> None:
    names = ("q", "k", "v") if name == "decode_out" else ("q", "k_pages", "v_pages", "page_table")
    inputs = tuple(tensors[key] for key in (*names, "kv_lens"))
    opcheck(getattr(torch.ops.sparkctl, name).default, inputs, room(tensors["q"]))
    opcheck(getattr(torch.ops.sparkctl, name.removesuffix("_out")).default, inputs, {"return_lse": True})


def test_pages_hold_the_same_keys(tensors: Tensors) -> None:
    full = torch.full((3,), CAPACITY, dtype=torch.int32, device="cuda")
    assert torch.equal(gather_pages(tensors["k_pages"], tensors["page_table"], full), tensors["k"])
