"""The merges on plain torch: against attention over all keys at once, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from sparkctl import ops


def inputs(dtype: torch.dtype = torch.bfloat16, seed: int = 3) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    sizes = {"q": (2, 3, 8, 64), "k": (2, 90, 2, 64), "v": (2, 90, 2, 64)}
    return {name: torch.randn(*size, generator=generator).to(dtype) for name, size in sizes.items()}


def states_of(args: dict[str, torch.Tensor], *cuts: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """out and lse of decode over the keys between the cuts."""
    q, k, v = args["q"], args["k"], args["v"]
    results = [
        ops.decode(q, k[:, a:b], v[:, a:b], return_lse=True) for a, b in zip((0, *cuts), (*cuts, 90), strict=True)
    ]
    return [out for out, _ in results], [lse for _, lse in results]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("cuts", [(), (30,), (1, 60, 61), (0, 45), (45, 90)])
def test_states_over_disjoint_keys_merge_into_attention_over_all(dtype: torch.dtype, cuts: tuple[int, ...]) -> None:
    args = inputs(dtype)
    whole, whole_lse = ops.decode(**args, return_lse=True)
    out, lse = ops.merge_states(*states_of(args, *cuts))
    torch.testing.assert_close(out.float(), whole.float(), atol=1e-2, rtol=1e-2)
    torch.testing.assert_close(lse, whole_lse, atol=1e-5, rtol=1e-5)
    assert (out.dtype, lse.dtype) == (dtype, torch.float32)


def test_a_state_without_keys_is_not_read_and_nothing_but_such_gives_zero() -> None:
    outs, lses = (torch.stack(states) for states in states_of(inputs(), 40))
    expected = ops.merge_states(outs[1:], lses[1:])
    outs[0], lses[0] = float("nan"), -torch.inf
    for one, other in zip(ops.merge_states(outs, lses), expected, strict=True):
        assert torch.equal(one, other)
    lses[:] = -torch.inf
    out, lse = ops.merge_states(outs, lses)
    assert (out == 0).all()
    assert (lse == -torch.inf).all()


def test_a_nan_that_is_attended_to_stays() -> None:
    outs, lses = (torch.stack(states) for states in states_of(inputs(), 40))
    outs[1, 0, 0, 0, 5] = float("nan")
    out, _ = ops.merge_states(outs, lses)
    assert out.isnan().nonzero().tolist() == [[0, 0, 0, 5]]


def test_results_go_where_they_are_wanted_also_over_a_state() -> None:
    outs, lses = (torch.stack(states) for states in states_of(inputs(), 40))
    out, lse = ops.merge_states(outs, lses)
    given = (torch.full_like(out, float("nan")), torch.full_like(lse, float("nan")))
    written = ops.merge_states(outs, lses, out_=given[0], lse_=given[1])
    assert written[0] is given[0]
    assert written[1] is given[1]
    ops.merge_states(outs, lses, out_=outs[0], lse_=lses[0])
    for one, other, third in zip((out, lse), given, (outs[0], lses[0]), strict=True):
        assert torch.equal(one, other)
        assert torch.equal(one, third)


def good() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(2, 1, 3, 4, 64, dtype=torch.bfloat16), torch.zeros(2, 1, 3, 4)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"out": 3}, TypeError, "out is int, accepted are torch.Tensor and a sequence of them"),
        ({"out": []}, TypeError, "out is list"),
        ({"out": [torch.zeros(1), 3]}, TypeError, "out[1] is int, accepted is torch.Tensor"),
        ({"out": [torch.zeros(1), torch.zeros(2)]}, ValueError, "out[1] has shape [2], accepted is [1]"),
        ({"out": good()[0][0]}, ValueError, "accepted is rank 5 [num_states"),
        ({"out": good()[0].float()}, TypeError, "out has dtype torch.float32"),
        ({"out": good()[0][:0]}, ValueError, "num_states is 0, accepted is 1 or more"),
        ({"lse": good()[1][:1]}, ValueError, "lse has shape [1, 1, 3, 4], accepted is [2, 1, 3, 4]"),
        ({"lse": good()[1].double()}, TypeError, "lse has dtype torch.float64"),
        ({"out_": good()[0]}, ValueError, "out_ has shape [2, 1, 3, 4, 64], accepted is [1, 3, 4, 64]"),
        ({"out_": good()[0][0].half()}, TypeError, "out_ has dtype torch.float16"),
        ({"lse_": torch.zeros(1, 3, 5)}, ValueError, "lse_ has shape [1, 3, 5]"),
        ({"backend": "cuda"}, ValueError, "out is on cpu, which backend 'cuda' does not accept"),
        ({"backend": "x"}, ValueError, "backend is 'x', accepted are"),
    ],
)
def test_a_bad_argument_is_named_with_what_is_accepted(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    out, lse = good()
    with pytest.raises(error) as caught:
        ops.merge_states(**{"out": out, "lse": lse, **changes})
    assert message in str(caught.value)


@pytest.mark.parametrize("sinks", [None, [0.5, -torch.inf, 3.0, 40.0]])
def test_combine_on_plain_torch_is_the_merge_of_its_splits(sinks: list[float] | None) -> None:
    generator = torch.Generator().manual_seed(1)
    part_max = torch.randn(2, 1, 4, 5, generator=generator) * 4
    part_sum = 1 + torch.rand(2, 1, 4, 5, generator=generator)
    part_acc = torch.randn(2, 1, 4, 5, 64, generator=generator)
    part_max[0, 0, 0], part_sum[0, 0, 0], part_acc[0, 0, 0] = -torch.inf, 0, float("nan")  # a row that saw no key
    part_max[1, 0, 2, 3], part_sum[1, 0, 2, 3], part_acc[1, 0, 2, 3] = -torch.inf, 0, float("nan")
    given = None if sinks is None else torch.tensor(sinks)
    out, lse = ops.combine(part_acc, part_max, part_sum, dtype=torch.bfloat16, sinks=given)
    weights = torch.exp2(part_max.double()) * (part_sum > 0)
    total = (weights * part_sum).sum(-1) + (0 if given is None else torch.exp(given.double()))
    expected = (weights[..., None] * part_acc.double().nan_to_num()).sum(-2) / total.clamp(min=1e-300)[..., None]
    torch.testing.assert_close(out.double(), expected, atol=1e-2, rtol=1e-2)
    torch.testing.assert_close(lse.double(), total.log(), atol=1e-5, rtol=1e-5)
