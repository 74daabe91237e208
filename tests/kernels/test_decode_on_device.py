"""What only a device can show of decode: streams, CUDA graphs, offsets past 2^31 in real memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from sparkctl import ops
from sparkctl.ops.fallback import attention_torch
from sparkctl.ops.options import AttentionOptions

pytestmark = pytest.mark.gpu

KERNELS = ["attn_decode_split_kv", "attn_decode_split_kv_mma"]
PAGED_KERNELS = ["attn_paged_decode_split_kv", "attn_paged_decode_split_kv_mma"]
# What a graph is captured of: a kernel, whether it goes over pages, and the run-time flags of its calls.
CAPTURED: dict[str, tuple[str, bool, dict[str, int]]] = {
    **{kernel: (kernel, False, {}) for kernel in KERNELS},
    **{kernel: (kernel, True, {}) for kernel in PAGED_KERNELS},
    "fa_split_gqa, two stages": ("fa_split_gqa", False, {"FAPIPE": 1}),
    "fa_split_gqa, one stage": ("fa_split_gqa", False, {"FAPIPE": 0}),
    "fa_split_gqa, two stages, pages": ("fa_split_gqa", True, {"FAPIPE": 1}),
    "fa_split_gqa, one stage, pages": ("fa_split_gqa", True, {"FAPIPE": 0}),
}
Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


@pytest.fixture
def make() -> Callable[..., Tensors]:
    """q, k, v for a shape, from a fixed seed."""
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    generator = torch.Generator(device="cuda").manual_seed(11)

    def inputs(batch: int, kv_len: int, *, heads: int = 32, kv_heads: int = 8, head_dim: int = 128) -> Tensors:
        def rand(*size: int) -> torch.Tensor:
            return torch.randn(*size, device="cuda", generator=generator).to(torch.bfloat16)

        kv = (batch, kv_len, kv_heads, head_dim)
        return rand(batch, 1, heads, head_dim), rand(*kv), rand(*kv)

    return inputs


def expected(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, kv_lens: torch.Tensor | None = None) -> torch.Tensor:
    return attention_torch(q, k, v, kv_lens=kv_lens, options=AttentionOptions(q.shape[-1] ** -0.5))[0]


def assert_near(out: torch.Tensor, reference: torch.Tensor) -> None:
    torch.testing.assert_close(out.float(), reference.float(), atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_call_follows_the_current_stream(make: Callable[..., Tensors], kernel: str) -> None:
    q, k, v = make(2, 4096)
    reference = expected(q, k, v)
    late = torch.zeros_like(k)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)  # long enough that a call on another stream would read zeros
        late.copy_(k)
        out = ops.decode(q, late, v, kernel=kernel)
    stream.synchronize()
    assert_near(out, reference)


@pytest.mark.parametrize("kernel", KERNELS)
def test_two_streams_at_once_do_not_disturb_each_other(make: Callable[..., Tensors], kernel: str) -> None:
    sets = [make(2, 2048), make(2, 2048)]
    references = [expected(*tensors) for tensors in sets]
    streams = [torch.cuda.Stream() for _ in sets]
    torch.cuda.synchronize()
    for _ in range(20):
        outs = []
        for stream, tensors in zip(streams, sets, strict=True):
            with torch.cuda.stream(stream):
                outs.append(ops.decode(*tensors, kernel=kernel))
        torch.cuda.synchronize()
        for out, reference in zip(outs, references, strict=True):
            assert_near(out, reference)


@pytest.mark.parametrize("optional", [False, True], ids=["plain", "options"])
@pytest.mark.parametrize("name", CAPTURED)
def test_a_graph_captured_short_replays_long(make: Callable[..., Tensors], name: str, optional: bool) -> None:
    kernel, paged, flags = CAPTURED[name]
    q, k, v = make(3, 4100)
    kv_lens = torch.tensor([1, 1, 1], dtype=torch.int32, device="cuda")
    out = torch.full_like(q, float("nan"))
    workspace = ops.allocate_workspace(q, 16)
    options = every_option(q, k.shape[1]) if optional else AttentionOptions(q.shape[-1] ** -0.5)
    call = prepared(kernel, paged, q, k, v, kv_lens, options, out=out, workspace=workspace, flags=flags)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    for lens in ([4097, 64, 0], [1, 4096, 513], [0, 0, 0]):
        kv_lens.copy_(torch.tensor(lens, dtype=torch.int32))
        out.fill_(float("nan"))
        for part in (workspace.part_acc, workspace.part_max, workspace.part_sum):
            part.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        assert_near(out, attention_torch(q, k, v, kv_lens=kv_lens, options=options)[0])


def every_option(q: torch.Tensor, kv_len: int) -> AttentionOptions:
    """A window, a cap, a mask of its own for every head, and sinks."""
    batch, qo_len, heads, head_dim = q.shape
    generator = torch.Generator(q.device).manual_seed(2)
    mask = torch.rand((batch, heads, qo_len, kv_len), device=q.device, generator=generator) < 0.6
    sinks = torch.linspace(-2, 3, heads, device=q.device)
    return AttentionOptions(head_dim**-0.5, causal=True, window=700, softcap=5.0, mask=mask, sinks=sinks)


def prepared(
    kernel: str,
    paged: bool,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    kv_lens: torch.Tensor,
    options: AttentionOptions,
    **given: Any,
) -> Callable[[], Any]:
    """The call of a kernel over these keys, contiguous or in shuffled pages of 20 keys that are made here."""
    words = {name: getattr(options, name) for name in ("scale", "causal", "window", "softcap", "mask", "sinks")}
    words |= {"kernel": kernel, **given}
    if not paged:
        return lambda: ops.decode(q, k, v, kv_lens=kv_lens, **words)
    batch, entries = k.shape[0], k.shape[1] // 20
    table = torch.randperm(batch * entries, device=q.device).view(batch, entries)
    pages = []
    for tensor in (k, v):
        room = tensor.new_empty(batch * entries, 20, *tensor.shape[2:])
        room[table.flatten()] = tensor.reshape(room.shape)
        pages.append(room)
    page_table = table.int()
    return lambda: ops.paged_decode(q, *pages, page_table, kv_lens, **words)


@pytest.mark.parametrize("kernel", KERNELS)
def test_offsets_past_two_to_the_31_are_right(make: Callable[..., Tensors], kernel: str) -> None:
    q, k, v = make(2, 300, heads=8, kv_heads=2)
    stride = 2**31 // 300 + 8 - (2**31 // 300) % 8  # elements from one key to the next: key 299 lies past 2^31
    reference = expected(q, k, v)
    span = 300 * stride + 2 * 256
    views = []
    for tensor in (k, v):
        memory = torch.empty(span, dtype=torch.bfloat16, device="cuda")
        view = memory.as_strided((2, 300, 2, 128), (256, stride, 128, 1))
        view.copy_(tensor)
        views.append(view)
    assert_near(ops.decode(q, *views, kernel=kernel), reference)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_same_call_gives_the_same_bits(make: Callable[..., Tensors], kernel: str) -> None:
    q, k, v = make(4, 5000)
    first = ops.decode(q, k, v, kernel=kernel, num_splits=7)
    for _ in range(20):
        assert torch.equal(first, ops.decode(q, k, v, kernel=kernel, num_splits=7))
