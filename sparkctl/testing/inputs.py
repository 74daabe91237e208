"""Makes a case's tensors on a device: random values from the case's seed, laid out as the case says.

Whatever must not be read or written is poisoned with NaN: keys past a sequence's end, the gaps between strided rows,
and (in guard.py) outputs before the call.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparkctl.testing.arena import arena_for
from sparkctl.testing.model import (
    CombineCase,
    DecodeCase,
    Layout,
    MaskKind,
    MergeCase,
    PrefillCase,
    SplitPattern,
    StateLayout,
    StatePattern,
    case_seed,
)

if TYPE_CHECKING:
    from torch import Tensor

GAP = 8  # elements in the gap between padded rows; keeps 16-byte alignment
LARGE_SCORE = 1e3
ABSURD_PAGE = 2**30  # in table entries that nobody may read
VISIBLE_SHARE = 0.6  # of a mask
HUGE_SINK = 3.4e38  # an fp32 number whose product with log2(e) is none
LARGE_SINK = 5.0  # outweighs a handful of keys, and leaves fp16 its precision


@dataclass(frozen=True, slots=True)
class DecodeInputs:
    """q, k, v, kv_lens and the options that are tensors, as the operator takes them."""

    q: Tensor
    k: Tensor
    v: Tensor
    kv_lens: Tensor | None
    pages: Pages | None = None  # of a paged case; k and v then hold the same keys one behind the other
    mask: Tensor | None = None
    sinks: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Pages:
    """K and V in pages."""

    k: Tensor  # [num_pages, page_size, num_kv_heads, head_dim]
    v: Tensor
    table: Tensor  # int32 [batch, max_pages]


@dataclass(frozen=True, slots=True)
class Partials:
    """What a decode kernel hands to combine."""

    acc: Tensor  # [batch, qo_len, num_qo_heads, num_splits, head_dim]
    max: Tensor  # [batch, qo_len, num_qo_heads, num_splits], log2 domain
    sum: Tensor
    sinks: Tensor | None = None  # [num_qo_heads]


@dataclass(frozen=True, slots=True)
class States:
    """What several attention calls of the same queries over disjoint keys gave."""

    out: Tensor  # [num_states, batch, qo_len, num_qo_heads, head_dim]
    lse: Tensor  # [num_states, batch, qo_len, num_qo_heads], natural log


def make_decode_inputs(case: DecodeCase, dtype: str, head_dim: int, device: str, seed: int = 0) -> DecodeInputs:
    """MemoryError where the case needs more memory than the device has free."""
    import torch

    generator = torch.Generator(device).manual_seed(case_seed(case, seed))
    shape_q = (case.batch, case.qo_len, case.num_qo_heads, head_dim)
    shape_kv = (case.batch, case.kv_capacity, case.num_kv_heads, head_dim)
    q, k, v = (
        torch.randn(shape, generator=generator, device=device, dtype=torch.float32)
        for shape in (shape_q, shape_kv, shape_kv)
    )
    if case.logits == "large":
        q *= LARGE_SCORE / (3.5 * math.sqrt(head_dim))  # the largest of some hundred q·k is about 3.5 deviations
    lens = torch.tensor(case.kv_lens, dtype=torch.int32, device=device)
    first = torch.tensor(case.first_keys, device=device)
    key = torch.arange(case.kv_capacity, device=device)
    unseen = ((key >= lens[:, None]) | (key < first[:, None]))[:, :, None, None]
    k.masked_fill_(unseen, math.nan)
    v.masked_fill_(unseen, math.nan)
    kv_lens = None if case.slack is None else lens
    mask = make_mask(case, generator, device)
    sinks = make_sinks(case.num_qo_heads, generator, device) if case.sinks else None
    q, k, v = (tensor.to(torch_dtype(dtype)) for tensor in (q, k, v))
    if case.page_size is not None:
        if case.label == "shared_pages":
            k[:, : case.page_size] = k[:1, : case.page_size]
            v[:, : case.page_size] = v[:1, : case.page_size]
        pages = place_in_pages(k, v, case, generator)
        return DecodeInputs(place_q(q, case.layout), k, v, kv_lens, pages, mask, sinks)
    return DecodeInputs(place_q(q, case.layout), *place_kv(k, v, case.layout), kv_lens, None, mask, sinks)


def make_mask(case: DecodeCase | PrefillCase, generator: Any, device: str) -> Tensor | None:
    """A random mask as a view that starts at an odd byte inside memory that would show every key."""
    import torch

    if case.mask == "none":
        return None
    shape = mask_shape(case.mask, case.batch, case.num_qo_heads, case.qo_len, case.kv_capacity)
    noise = torch.rand(shape, generator=generator, device=device)
    hidden_rows = torch.rand((*shape[:-1], 1), generator=generator, device=device) < 0.15
    mask = (noise < VISIBLE_SHARE) & ~hidden_rows
    if case.label == "mask_all_rows":
        mask[:] = False
    if case.label == "mask_first_tile_hidden":
        mask[..., :64] = False
    room = torch.ones([size + 1 for size in shape], dtype=torch.bool, device=device)
    return view_into(mask, room[tuple(slice(1, None) for _ in shape)])


def mask_shape(kind: MaskKind, batch: int, heads: int, qo_len: int, kv_len: int) -> tuple[int, ...]:
    """The shape of a mask of this kind."""
    rows = 1 if kind.endswith("_row") else qo_len
    if kind == "rank2":
        return (qo_len, kv_len)
    if kind.startswith("rank3"):
        return (batch, rows, kv_len)
    return (batch, heads if "heads" in kind else 1, rows, kv_len)


def make_sinks(heads: int, generator: Any, device: str) -> Tensor:
    """Random sinks, the first −inf (which is none) and the last large; of many two outweigh everything, without end or
    in fp32 alone."""
    import torch

    sinks = torch.randn(heads, generator=generator, device=device, dtype=torch.float32)
    sinks[0] = -math.inf
    sinks[-1] = LARGE_SINK
    if heads > 4:
        sinks[1], sinks[2] = math.inf, HUGE_SINK
    return sinks


def place_in_pages(k: Tensor, v: Tensor, case: DecodeCase | PrefillCase, generator: Any) -> Pages:
    """The keys of k and v [batch, max_pages * page_size, …] in shuffled pages, some of them nobody's and poisoned."""
    import torch

    assert case.page_size is not None
    page_size, entries = case.page_size, case.max_pages
    spare = 0 if case.layout.startswith("huge") else 3  # the last page must lie past 2^31
    order = torch.randperm(case.batch * entries + spare, generator=generator, device=k.device)
    table = order[: case.batch * entries].view(case.batch, entries)
    if case.label == "shared_pages" and entries:
        table[:, 0] = table[0, 0]
    pages = []
    for tensor in (k, v):
        room = poison(tensor, len(order), page_size, *tensor.shape[2:])
        room[table.flatten()] = tensor.reshape(len(table.flatten()), page_size, *tensor.shape[2:])
        pages.append(room)
    lens, first = (torch.tensor(keys, device=k.device)[:, None] for keys in (case.kv_lens, case.first_keys))
    start = torch.arange(entries, device=k.device) * page_size
    unused = (start >= lens) | (start + page_size <= first)
    wide = torch.full((case.batch, entries + 5), ABSURD_PAGE, dtype=torch.int32, device=k.device)
    wide[:, :entries] = table.masked_fill(unused, ABSURD_PAGE)
    return Pages(*place_kv(pages[0], pages[1], case.layout), wide[:, :entries])


def make_partials(case: CombineCase, head_dim: int, device: str, seed: int = 0) -> Partials:
    """Partials of random scores; the acc of a split without weight holds NaN, since nothing may read it.

    Beside sinks the maxima lie close, so that no row is so light that fp16 cannot hold it.
    """
    import torch

    generator = torch.Generator(device).manual_seed(case_seed(case, seed))
    rows = (case.batch, case.qo_len, case.num_qo_heads, case.num_splits)

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, device=device, dtype=torch.float32)

    spread = 200.0 if case.pattern == "far_apart" else 1.0 if case.sinks else 3.0
    part_max = random(*rows) * spread
    part_sum = 1 + random(*rows).abs() * 20
    part_acc = random(*rows, head_dim) * part_sum[..., None]
    empty = empty_parts(case.pattern, random(*rows))
    part_max.masked_fill_(empty, -math.inf)
    part_sum.masked_fill_(empty, 0.0)
    part_acc.masked_fill_(empty[..., None], math.nan)
    if case.pattern == "zero_sum":  # a finite maximum and no weight
        part_sum[..., 0] = 0.0
        part_acc[..., 0, :] = math.nan
    sinks = make_sinks(case.num_qo_heads, generator, device) if case.sinks else None
    return Partials(part_acc, part_max, part_sum, sinks)


def make_states(case: MergeCase, dtype: str, head_dim: int, device: str, seed: int = 0) -> States:
    """Random states in the case's layout; the out of a state that saw no key holds NaN, since nothing may read it."""
    import torch

    generator = torch.Generator(device).manual_seed(case_seed(case, seed))
    rows = (case.batch, case.qo_len, case.num_qo_heads, case.num_states)

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, device=device, dtype=torch.float32)

    lse = random(*rows) * (200.0 if case.pattern == "far_apart" else 3.0)
    out = random(*rows, head_dim)
    empty = empty_parts(case.pattern, random(*rows))
    lse.masked_fill_(empty, -math.inf)
    out.masked_fill_(empty[..., None], math.nan)
    out, lse = out.movedim(3, 0).to(torch_dtype(dtype)), lse.movedim(3, 0).contiguous()
    if case.layout == "padded":  # a gap between the states' lse, too
        room = poison(lse, case.num_states, lse[0].numel() + 3)
        lse = view_into(lse, room[:, : lse[0].numel()].view(lse.shape))
    return States(place_states(out, case.layout), lse)


def empty_parts(pattern: SplitPattern | StatePattern, noise: Tensor) -> Tensor:
    """Which parts of which rows saw nothing, of noise `[batch, qo_len, num_qo_heads, parts]`."""
    import torch

    count = noise.shape[-1]
    part = torch.arange(count, device=noise.device)
    by_pattern = {
        "empty_first": part < max(1, count // 3),
        "empty_middle": (part >= count // 3) & (part < max(count // 3 + 1, 2 * count // 3)),
        "empty_last": part >= count - max(1, count // 3),
        "one_live": part != count // 2,
        "all_empty": part >= 0,
    }
    if pattern == "row_empty":  # whole rows, and single parts of others
        return (noise > 0.5) | (noise[..., :1] > 0.3)
    return by_pattern.get(pattern, part < 0).expand(noise.shape)


def place_states(out: Tensor, layout: StateLayout) -> Tensor:
    """out `[num_states, batch, qo_len, heads, head_dim]` in the layout; `states_inside` has the states of a row side by
    side."""
    match layout:
        case "contiguous":
            return out.contiguous()
        case "heads_first":
            return out.transpose(2, 3).contiguous().transpose(2, 3)
        case "padded":
            count, batch, length, heads, head_dim = out.shape
            room = poison(out, count, batch + 1, length + 1, heads + 1, head_dim + GAP)
            return view_into(out, room[:, :batch, :length, 1:, GAP:])
        case "states_inside":
            return out.movedim(0, 3).contiguous().movedim(3, 0)


def place_q(q: Tensor, layout: Layout) -> Tensor:
    """q in the layout; `fused` puts it inside a projection that also holds other heads."""
    batch, qo_len, heads, head_dim = q.shape
    match layout:
        case "heads_first":
            return heads_first(q)
        case "padded" | "mixed":
            return padded(q)
        case "fused":
            return view_into(q, poison(q, batch, qo_len, heads + 2, head_dim)[:, :, 1:-1])
        case _:
            return q


def place_kv(k: Tensor, v: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
    """k and v in the layout; `fused` interleaves them, `mixed` gives them different strides."""
    batch, length, heads, head_dim = k.shape
    match layout:
        case "contiguous":
            return k, v
        case "heads_first":
            return heads_first(k), heads_first(v)
        case "padded":
            return padded(k), padded(v)
        case "fused":
            both = poison(k, batch, length, 2, heads, head_dim)
            return view_into(k, both[:, :, 0]), view_into(v, both[:, :, 1])
        case "mixed":
            return k, padded(heads_first(v))
        case "huge_batch" | "huge_len" | "huge_heads":
            return arena_for(k.dtype, str(k.device)).place(k, v, axis=("batch", "len", "heads").index(layout[5:]))


def heads_first(values: Tensor) -> Tensor:
    """The same values as a view of `[batch, heads, len, head_dim]`."""
    return values.transpose(1, 2).contiguous().transpose(1, 2)


def padded(values: Tensor) -> Tensor:
    """The same values with poison behind every row, head, length and sequence."""
    batch, length, heads, head_dim = values.shape
    room = poison(values, batch, length + 1, heads + 1, head_dim + GAP)
    return view_into(values, room[:, :length, 1:, GAP:])


def view_into(values: Tensor, view: Tensor) -> Tensor:
    view.copy_(values)
    return view


def poison(like: Tensor, *shape: int) -> Tensor:
    return like.new_full(shape, math.nan)


def torch_dtype(dtype: str) -> Any:
    """torch's dtype for a registry value of the axis dtype."""
    import torch

    return {"bf16": torch.bfloat16, "fp16": torch.float16}[dtype]
