"""The registered operators: torch's own checks of them, and torch.compile giving the bits that eager calls give."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from builds import default_build
from torch.library import opcheck

from sparkctl import ops
from sparkctl.runtime import Library

BACKENDS = ["torch", "emulator"]
KERNELS = [
    "attn_decode_split_kv_mma",
    "attn_paged_decode_split_kv_mma",
    "attn_prefill_split_q_mma",
    "attn_combine",
    "attn_merge_states",
]
CHOSEN = {"head_dim": ["64"], "dtype": ["bf16"], "stages": ["2"]}


@pytest.fixture(scope="module", autouse=True)
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    ops.register()
    with default_build(tmp_path_factory.mktemp("registered"), KERNELS, CHOSEN) as library:
        yield library


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


def rand(*size: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed)).bfloat16()


def contiguous(kv_len: int = 70) -> tuple[torch.Tensor, ...]:
    lens = torch.tensor([5, kv_len], dtype=torch.int32)
    return rand(2, 2, 8, 64), rand(2, kv_len, 2, 64, seed=1), rand(2, kv_len, 2, 64, seed=2), lens


def paged() -> tuple[torch.Tensor, ...]:
    table = torch.tensor([[6, 1, 3], [2, 0, 1 << 30]], dtype=torch.int32)
    lens = torch.tensor([40, 17], dtype=torch.int32)
    return rand(2, 1, 8, 64), rand(7, 16, 2, 64, seed=1), rand(7, 16, 2, 64, seed=2), table, lens


def packed() -> tuple[torch.Tensor, ...]:
    """A ragged prefill of two sequences."""
    indptr = torch.tensor([0, 19, 40], dtype=torch.int32)
    return rand(40, 8, 64), rand(40, 2, 64, seed=1), rand(40, 2, 64, seed=2), indptr


def states() -> tuple[torch.Tensor, ...]:
    lse = torch.randn(3, 2, 5, 4, generator=torch.Generator().manual_seed(3))
    lse[1, 0] = -torch.inf
    return rand(3, 2, 5, 4, 64), lse


def partials() -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(4)
    part_max, part_sum = torch.randn(2, 1, 4, 3, generator=generator), 1 + torch.rand(2, 1, 4, 3, generator=generator)
    return torch.randn(2, 1, 4, 3, 64, generator=generator), part_max, part_sum


def room(q: torch.Tensor, splits: int = 2) -> dict[str, torch.Tensor]:
    space = ops.allocate_workspace(q, splits)
    parts = {"part_acc": space.part_acc, "part_max": space.part_max, "part_sum": space.part_sum}
    return {"out": torch.empty_like(q), "lse": torch.empty(q.shape[:3]), **parts}


def ragged(indptr: torch.Tensor) -> dict[str, Any]:
    return {"qo_indptr": indptr, "kv_indptr": indptr, "max_qo_len": 21, "causal": True}


def registered() -> dict[str, tuple[tuple[torch.Tensor, ...], dict[str, Any]]]:
    """Arguments for every registered operator, by name."""
    options = {"causal": True, "softcap": 20.0, "window": 9, "sinks": torch.zeros(8)}
    mask = rand(2, 1, 2, 70, seed=9) > -1
    merged = {"out_": torch.empty(2, 5, 4, 64).bfloat16(), "lse_": torch.empty(2, 5, 4)}
    combined = {"out": torch.empty(2, 1, 4, 64).half(), "lse": torch.empty(2, 1, 4)}
    return {
        "decode": (contiguous(), {**options, "mask": mask, "return_lse": True}),
        "decode_out": (contiguous(), {**options, **room(contiguous()[0])}),
        "paged_decode": (paged(), {"return_lse": False}),
        "paged_decode_out": (paged(), {**options, **room(paged()[0], 3)}),
        "prefill": (contiguous()[:3], {**options, "mask": mask, "kv_lens": contiguous()[3], "return_lse": True}),
        "prefill_out": (packed()[:3], {**ragged(packed()[3]), "out": rand(40, 8, 64), "lse": torch.empty(40, 8)}),
        "merge_states": (states(), {}),
        "merge_states_out": (states(), merged),
        "combine": (partials(), {"dtype": torch.float16, "sinks": torch.zeros(4)}),
        "combine_out": (partials(), {"dtype": torch.float16, **combined}),
    }


@pytest.mark.parametrize("name", list(registered()))
def test_torch_finds_no_fault_in_an_operator(name: str) -> None:
    args, kwargs = registered()[name]
    opcheck(getattr(torch.ops.sparkctl, name).default, args, kwargs)


def test_no_registered_operator_is_left_out() -> None:
    known = {name.removeprefix("sparkctl::") for name in torch._C._dispatch_get_all_op_names() if "sparkctl::" in name}
    assert known == set(registered())


def decoded(backend: str) -> Callable[..., Any]:
    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, lens: torch.Tensor) -> Any:
        out, lse = ops.decode(q * 2, k, v, kv_lens=lens, causal=True, num_splits=1, return_lse=True, backend=backend)
        return out + 1, lse

    return call


def decoded_alone(backend: str) -> Callable[..., Any]:
    return lambda q, k, v, lens: (
        ops.decode(q, k, v, scale=0.3, window=7, softcap=9.0, num_splits=3, backend=backend) * 2,
    )


def decoded_into(backend: str) -> Callable[..., Any]:
    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, lens: torch.Tensor) -> Any:
        space = ops.Workspace(*(torch.zeros(*q.shape[:3], 3, *end) for end in ((64,), (), ())))
        out, lse = torch.empty_like(q), torch.empty(q.shape[:3])
        ops.decode(q, k, v, kv_lens=lens, out=out, lse=lse, workspace=space, backend=backend)
        return out, lse, space.part_sum

    return call


def decoded_over_pages(backend: str) -> Callable[..., Any]:
    return lambda *args: ops.paged_decode(*args, return_lse=True, backend=backend)


def prefilled(backend: str) -> Callable[..., Any]:
    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, indptr: torch.Tensor) -> Any:
        whole = ops.prefill(q[None], k[None], v[None], causal=True, softcap=20.0, backend=backend)
        out, lse = ops.prefill(q, k, v, **ragged(indptr), return_lse=True, backend=backend)
        return whole + 1, out, lse, *ops.prefill(q, k, v, **ragged(indptr), lse=torch.zeros_like(lse), backend=backend)

    return call


def prefilled_over_pages(backend: str) -> Callable[..., Any]:
    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, table: torch.Tensor, lens: torch.Tensor) -> Any:
        return (ops.prefill(q, k, v, page_table=table, kv_lens=lens, window=9, causal=True, backend=backend),)

    return call


def merged(backend: str) -> Callable[..., Any]:
    def call(out: torch.Tensor, lse: torch.Tensor) -> Any:
        merged = ops.merge_states(out, lse, backend=backend)
        return (*merged, *ops.merge_states(list(out), list(lse), out_=torch.zeros_like(out[0]), backend=backend))

    return call


def combined(backend: str) -> Callable[..., Any]:
    return lambda *parts: ops.combine(*parts, dtype=torch.bfloat16, backend=backend)


CALLS: dict[str, tuple[Callable[[str], Callable[..., Any]], Callable[[], tuple[torch.Tensor, ...]]]] = {
    "decode": (decoded, contiguous),
    "decode, options": (decoded_alone, contiguous),
    "decode into given tensors": (decoded_into, contiguous),
    "paged_decode": (decoded_over_pages, paged),
    "prefill": (prefilled, packed),
    "prefill over pages": (prefilled_over_pages, paged),
    "merge_states": (merged, states),
    "combine": (combined, partials),
}


def assert_same_bits(one: Any, other: Any) -> None:
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert a.dtype == b.dtype
        assert torch.equal(a.view(torch.uint8), b.view(torch.uint8))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", list(CALLS))
def test_a_compiled_call_gives_the_bits_of_an_eager_one(library: Library, name: str, backend: str) -> None:
    make, inputs = CALLS[name]
    call, args = make(backend), inputs()
    expected = call(*args)
    before = library.emulator_launch_count()
    assert_same_bits(torch.compile(call, fullgraph=True, backend="aot_eager")(*args), expected)
    assert (library.emulator_launch_count() > before) == (backend == "emulator")


@pytest.mark.parametrize(
    "name",
    ["decode into given tensors", *(pytest.param(name, marks=pytest.mark.full) for name in ("decode", "merge_states"))],
)
def test_inductor_gives_the_bits_of_an_eager_call(name: str) -> None:
    make, inputs = CALLS[name]
    call, args = make("emulator"), inputs()
    assert_same_bits(torch.compile(call, fullgraph=True, backend="inductor")(*args), call(*args))


def test_a_cache_that_grows_is_compiled_twice_at_most() -> None:
    compiled: list[Any] = []

    def counting(graph: Any, inputs: Any) -> Any:
        compiled.append(graph)
        return graph.forward

    call = decoded_alone("torch")
    one = torch.compile(call, fullgraph=True, backend=counting)
    for kv_len in range(30, 40):
        args = contiguous(kv_len)
        assert_same_bits(one(*args), call(*args))
    assert len(compiled) <= 2  # once for the first length, once for any


@pytest.mark.parametrize("option", ["library", "explain", "flags"])
def test_python_objects_are_refused_by_name_under_compile(library: Library, option: str) -> None:
    value = {"library": library, "explain": True, "flags": {"FAPIPE": 0}}[option]
    q, k, v, _ = contiguous()
    with pytest.raises(Exception, match=f"{option} is given, accepted under torch.compile is none"):
        torch.compile(lambda q, k, v: ops.decode(q, k, v, **{option: value}), fullgraph=True, backend="eager")(q, k, v)


@pytest.mark.parametrize("name", ["kernel", "variant"])
def test_a_forced_choice_reaches_the_library_under_compile(name: str) -> None:
    compiled = torch.compile(
        lambda q, k, v: ops.decode(q, k, v, backend="emulator", **{name: "zz"}), fullgraph=True, backend="eager"
    )
    with pytest.raises(Exception, match=r"zz"):
        compiled(*contiguous()[:3])


def test_a_call_into_given_tensors_allocates_nothing() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[str] = []

    class Record(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    q, k, v, _ = contiguous()
    given = room(q)
    with Record():
        torch.ops.sparkctl.decode_out(q, k, v, None, backend="emulator", **given)
    assert seen == ["sparkctl.decode_out.default"]
    out, lse = ops.decode(q, k, v, return_lse=True, num_splits=2, backend="emulator")
    assert_same_bits((given["out"], given["lse"]), (out, lse))


def test_importing_the_operators_imports_no_torch() -> None:
    code = "import sys, sparkctl.ops, sparkctl.cli.app; assert 'torch' not in sys.modules, 'torch was imported'"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_library_module_registers_by_itself() -> None:
    code = "import sparkctl.ops.torch_library, torch; torch.ops.sparkctl.decode_out.default"
    subprocess.run([sys.executable, "-c", code], check=True)
