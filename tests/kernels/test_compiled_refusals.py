"""What eager calls refuse is refused under torch.compile: gradients and wrong types, with the same words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from calls import combine_inputs, decode_inputs, paged_inputs, zeros
from test_wrong_choices import merge_inputs, prefill_inputs

from sparkctl import ops

INPUTS: dict[str, Callable[[], dict[str, Any]]] = {
    "decode": decode_inputs,
    "paged_decode": paged_inputs,
    "prefill": prefill_inputs,
    "combine": combine_inputs,
    "merge_states": merge_inputs,
}
GRADIENTS = [
    *((name, place) for name in ("decode", "prefill") for place in ("q", "k", "v", "sinks", "out")),
    *(("paged_decode", place) for place in ("q", "k_pages", "v_pages")),
    *(("combine", place) for place in ("part_acc", "part_max", "part_sum")),
    *(("merge_states", place) for place in ("out", "lse")),
]
WRONG: tuple[dict[str, Any], ...] = (
    {"causal": 1},
    {"causal": None},
    {"return_lse": 1},
    {"explain": 0},
    {"window": True},
    {"window": 1.5},
    {"scale": True},
    {"softcap": True},
    {"scale": "1"},
)


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


def eager_and_compiled(operator: str, arguments: dict[str, Any], *, fullgraph: bool = False) -> list[Exception]:
    """What a direct call and a compiled one raise."""
    call = getattr(ops, operator)
    tensors = {name: value for name, value in arguments.items() if isinstance(value, torch.Tensor)}
    rest = {name: value for name, value in arguments.items() if name not in tensors}

    def run(tensors: dict[str, Any]) -> Any:
        return call(**tensors, **rest)

    errors = []
    for one in (run, torch.compile(run, backend="aot_eager", fullgraph=fullgraph)):
        with pytest.raises(Exception, match=r".") as caught:
            one(tensors)
        errors.append(caught.value)
    return errors


def with_gradient(operator: str, place: str) -> dict[str, Any]:
    inputs = INPUTS[operator]()
    if place not in inputs:
        inputs[place] = torch.zeros(8) if place == "sinks" else torch.zeros_like(inputs["q"])
    inputs[place] = inputs[place].requires_grad_()
    return inputs


@pytest.mark.parametrize(("operator", "place"), GRADIENTS)
def test_a_gradient_is_not_lost_but_refused(operator: str, place: str) -> None:
    text = f"{place} requires grad, accepted is inference only: use torch.no_grad() or .detach()"
    for error in eager_and_compiled(operator, with_gradient(operator, place)):
        assert (type(error), str(error)) == (ValueError, text)


@pytest.mark.parametrize(("operator", "place"), [("decode", "q"), ("prefill", "v"), ("merge_states", "out")])
def test_without_autograd_the_same_call_runs(operator: str, place: str) -> None:
    inputs = with_gradient(operator, place)
    with torch.no_grad():
        torch.compile(lambda: getattr(ops, operator)(**inputs), backend="aot_eager", fullgraph=True)()


@pytest.mark.parametrize("compiled", [False, True])
def test_a_registered_operator_loses_no_gradient_either(compiled: bool) -> None:
    ops.register()
    inputs = with_gradient("decode", "q")

    def call(q: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = torch.ops.sparkctl.decode(q, inputs["k"], inputs["v"])[0]
        torch.ops.sparkctl.decode_out(q, inputs["k"], inputs["v"], out=out)
        return out

    with pytest.raises(Exception, match="q requires grad, accepted is inference only"):
        (torch.compile(call, backend="aot_eager") if compiled else call)(inputs["q"])
    with torch.no_grad():
        call(inputs["q"])


@pytest.mark.parametrize("changes", WRONG, ids=str)
@pytest.mark.parametrize("operator", ["decode", "prefill"])
def test_a_wrong_type_is_refused_with_the_words_of_the_eager_call(operator: str, changes: dict[str, Any]) -> None:
    eager, compiled = eager_and_compiled(operator, {**INPUTS[operator](), **changes})
    assert (type(eager), str(eager)) == (type(compiled), str(compiled))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"causal": 1}, "causal is 1, accepted are True and False"),
        ({"num_splits": 2.0}, "num_splits is 2.0, accepted is a whole number or None"),
        ({"max_kv_len": True}, "max_kv_len is True, accepted is a whole number or None"),
        ({"total_kv_len": True}, "total_kv_len is True, accepted is a whole number or None"),
        ({"workspace": (1, 2)}, "workspace is tuple, accepted is sparkctl.ops.Workspace"),
        ({"workspace": ops.Workspace(None, None, None)}, "workspace.part_acc is NoneType"),  # type: ignore[arg-type]
    ],
)
def test_a_whole_graph_says_so_too(changes: dict[str, Any], words: str) -> None:
    for error in eager_and_compiled("decode", {**decode_inputs(), **changes}, fullgraph=True):
        assert words in str(error)


def test_a_window_past_any_integer_of_torch_hides_nothing_under_compile() -> None:
    q, k = zeros(1, 1, 2, 64) + 1, torch.randn(1, 9, 2, 64).bfloat16()
    for window in (2**31, 2**63, 2**100):
        compiled = torch.compile(lambda w=window: ops.decode(q, k, k, window=w), backend="aot_eager", fullgraph=True)
        assert torch.equal(compiled(), ops.decode(q, k, k))
