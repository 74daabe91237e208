"""Which tensors share memory, against a set of every byte."""

from __future__ import annotations

import random

import pytest
import torch

from sparkctl.ops.overlap import check_apart, check_no_overlap, layout_of, overlap, same_place


def byte_set(tensor: torch.Tensor) -> set[int]:
    item = tensor.element_size()
    offsets = [0]
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        offsets = [offset + i * stride for offset in offsets for i in range(size)]
    return {tensor.data_ptr() + offset * item + byte for offset in offsets for byte in range(item)}


def some_view(pick: random.Random, pool: torch.Tensor) -> torch.Tensor:
    rank = pick.randint(1, 3)
    shape = [pick.randint(1, 4) for _ in range(rank)]
    stride = [pick.choice((0, 1, 2, 3, 4, 6, 8, 12, 24)) for _ in range(rank)]
    return pool.as_strided(shape, stride, pick.randint(0, 40))


def test_no_shared_byte_is_missed_and_most_that_lie_apart_are_seen() -> None:
    pick, pool = random.Random(5), torch.zeros(400)
    other_item = pool.view(torch.float16)
    apart = seen = shared = 0
    for _ in range(4000):
        a, b = some_view(pick, pool), some_view(pick, pick.choice((pool, other_item)))
        first, second = layout_of(a), layout_of(b)
        assert first is not None
        assert second is not None
        says = overlap(first, second)
        assert says == overlap(second, first)
        if byte_set(a) & byte_set(b):
            shared += 1
            assert says, (a.shape, a.stride(), b.shape, b.stride())
        else:
            apart += 1
            seen += not says
    assert min(shared, apart) > 500
    assert seen > 0.7 * apart


def test_slices_of_one_tensor_are_apart() -> None:
    whole = torch.zeros(2, 5, 12, 64).bfloat16()
    check_apart([("out", whole[:, :, 8:])], [("q", whole[:, :, :8]), ("k", whole[:0])])
    check_apart([("out", whole[..., 32:])], [("q", whole[..., :32])])
    check_apart([("out", whole[:, :2])], [("q", whole[:, 2:])])
    check_apart([("out", whole.transpose(0, 1)[1:, :, 3:])], [("q", whole[:, :, :3]), ("k", whole[:, :1])])


def test_what_shares_memory_is_named() -> None:
    whole = torch.zeros(2, 5, 12, 64).bfloat16()
    with pytest.raises(ValueError, match="out shares memory with k, accepted is memory of its own"):
        check_apart([("out", whole[:, :, 7:])], [("q", None), ("k", whole[:, :, :8])])
    with pytest.raises(ValueError, match="out shares memory with lse, accepted is memory of its own"):
        check_apart([("out", whole), ("lse", whole.view(torch.float32)[0])], [])
    check_apart([("out", whole.to("meta"))], [("q", whole.to("meta"))])


def test_the_same_place_is_that_of_every_element() -> None:
    whole = torch.zeros(3, 2, 4)
    assert same_place(whole[1], whole[1])
    assert not same_place(whole[1], whole[2])
    assert not same_place(whole[0], whole[0].T.contiguous().T)
    assert not same_place(whole[0], torch.as_strided(whole, (2, 4), (8, 1)))


@pytest.mark.parametrize(
    ("shape", "stride", "fits"),
    [
        ((2, 8), (8, 1), True),
        ((2, 8), (9, 1), True),
        ((2, 8), (1, 2), True),
        ((2, 8), (7, 1), False),
        ((2, 8), (0, 1), False),
        ((1, 8), (0, 1), True),
        ((0, 8), (0, 0), True),
        ((2, 8), (1, 1), False),
    ],
)
def test_elements_that_share_memory_are_refused(shape: tuple[int, ...], stride: tuple[int, ...], fits: bool) -> None:
    view = torch.zeros(64).as_strided(shape, stride)
    if fits:
        check_no_overlap("out", view)
        return
    with pytest.raises(ValueError, match="out has elements that share memory, accepted is a tensor without overlap"):
        check_no_overlap("out", view)
