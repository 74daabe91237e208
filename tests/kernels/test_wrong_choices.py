"""What a call says beside its tensors, and memory that its tensors share: one typed error, on every backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from calls import BF16, Row, combine_inputs, decode_inputs, every_second, fp32, ints, paged_inputs, shows, zeros

from sparkctl import ops
from sparkctl.ops import Workspace
from sparkctl.runtime import Library


def prefill_inputs() -> dict[str, Any]:
    return {"q": zeros(2, 5, 8, 64), "k": zeros(2, 20, 2, 64), "v": zeros(2, 20, 2, 64)}


def merge_inputs() -> dict[str, Any]:
    return {"out": zeros(3, 2, 1, 4, 64), "lse": fp32(3, 2, 1, 4)}


def nested(*shape: int, dtype: torch.dtype = BF16) -> torch.Tensor:
    return torch.nested.nested_tensor([torch.zeros(shape[1:], dtype=dtype)] * shape[0])


def space(**changes: Any) -> Workspace:
    parts = {"part_acc": fp32(2, 1, 8, 3, 64), "part_max": fp32(2, 1, 8, 3), "part_sum": fp32(2, 1, 8, 3)}
    return Workspace(**{**parts, **changes})


INPUTS: dict[str, Callable[[], dict[str, Any]]] = {
    "decode": decode_inputs,
    "paged_decode": paged_inputs,
    "prefill": prefill_inputs,
    "combine": combine_inputs,
    "merge_states": merge_inputs,
}
ATTENTION = ("decode", "paged_decode", "prefill")
SCALE = "accepted is 0, or 1e-30 to 1e+30 with either sign"

# Of the three attention operators, whatever runs them.
SHARED: tuple[Row, ...] = (
    ({"kernel": 5}, TypeError, "kernel is 5, accepted is the name of a kernel, or 'auto'"),
    ({"kernel": None}, TypeError, "kernel is None, accepted is the name of a kernel, or 'auto'"),
    ({"variant": 5}, TypeError, "variant is 5, accepted is the name of a variant, or None"),
    ({"variant": []}, TypeError, "variant is [], accepted is the name of a variant, or None"),
    ({"library": "x"}, TypeError, "library is str, accepted is sparkctl.runtime.Library, or None"),
    ({"library": {}}, TypeError, "library is dict, accepted is sparkctl.runtime.Library, or None"),
    ({"return_lse": 1}, TypeError, "return_lse is 1, accepted are True and False"),
    ({"return_lse": None}, TypeError, "return_lse is None, accepted are True and False"),
    ({"return_lse": fp32(2)}, TypeError, "return_lse is tensor([0., 0.]), accepted are True and False"),
    ({"explain": "no"}, TypeError, "explain is 'no', accepted are True and False"),
    ({"backend": ["cuda"]}, ValueError, "backend is ['cuda'], accepted are auto, cuda, emulator, torch"),
    ({"q": nested(2, 1, 8, 64)}, TypeError, "q is a nested tensor, accepted is torch.Tensor of one shape"),
    (
        {"mask": nested(2, 1, 20, dtype=torch.bool)},
        TypeError,
        "mask is a nested tensor, accepted is torch.Tensor of one shape",
    ),
    ({"mask": shows(1, 20).to_sparse()}, TypeError, "mask has layout torch.sparse_coo, accepted is torch.strided"),
    ({"sinks": fp32(8).to_sparse()}, TypeError, "sinks has layout torch.sparse_coo, accepted is torch.strided"),
    ({"scale": 1e39}, ValueError, f"scale is 1e+39, {SCALE}"),
    ({"scale": -1e39}, ValueError, f"scale is -1e+39, {SCALE}"),
    ({"scale": 1e-50}, ValueError, f"scale is 1e-50, {SCALE}"),
    ({"scale": 1e-50, "softcap": 1.0}, ValueError, f"scale is 1e-50, {SCALE}"),
    ({"scale": -1e-37, "softcap": 1e4}, ValueError, f"scale is -1e-37, {SCALE}"),
    ({"scale": 10**400}, ValueError, "scale is inf, accepted is a finite number"),
    (
        {"lse": fp32(1).expand(2, 1, 8)},
        ValueError,
        "lse has elements that share memory, accepted is a tensor without overlap",
    ),
)
DECODING: tuple[Row, ...] = (
    ({"flags": 5}, TypeError, "flags is 5, accepted is a mapping of flags to values, or None"),
    ({"flags": "FAPIPE=0"}, TypeError, "flags is 'FAPIPE=0', accepted is a mapping of flags to values, or None"),
    (
        {"flags": [("FAPIPE", 0)]},
        TypeError,
        "flags is [('FAPIPE', 0)], accepted is a mapping of flags to values, or None",
    ),
    (
        {"out": zeros(1, 1, 1, 64).expand(2, 1, 8, 64)},
        ValueError,
        "out has elements that share memory, accepted is a tensor without overlap",
    ),
    ({"workspace": Workspace(None, None, None)}, TypeError, "workspace.part_acc is NoneType, accepted is torch.Tensor"),  # type: ignore[arg-type]
    ({"workspace": space(part_sum=None)}, TypeError, "workspace.part_sum is NoneType, accepted is torch.Tensor"),
    (
        {"workspace": space(part_max=fp32())},
        ValueError,
        "part_max has shape [], accepted is rank 4 [batch, qo_len, num_qo_heads, num_splits]",
    ),
    (
        {"workspace": space(part_acc=fp32(2, 1, 8, 0, 64), part_max=fp32(2, 1, 8, 0), part_sum=fp32(2, 1, 8, 0))},
        ValueError,
        "num_splits is 0, accepted is 1 to 65535",
    ),
    (
        {"workspace": space(part_acc=fp32(2, 1, 8, 2, 64))},
        ValueError,
        "part_acc has shape [2, 1, 8, 2, 64], accepted is [2, 1, 8, 3, 64]",
    ),
    (
        {"workspace": space(part_sum=zeros(2, 1, 8, 3))},
        TypeError,
        "part_sum has dtype torch.bfloat16, accepted is torch.float32",
    ),
    (
        {"workspace": space(part_max=every_second(fp32(2, 1, 8, 6)))},
        ValueError,
        "part_max is not contiguous, accepted is a contiguous tensor",
    ),
    (
        {"workspace": space(part_acc=fp32(1).expand(2, 1, 8, 3, 64))},
        ValueError,
        "part_acc is not contiguous, accepted is a contiguous tensor",
    ),
)
PREFILL: tuple[Row, ...] = (
    ({"max_qo_len": True}, TypeError, "max_qo_len is True, accepted is a whole number or None"),
    ({"max_qo_len": 5.0}, TypeError, "max_qo_len is 5.0, accepted is a whole number or None"),
    ({"max_qo_len": ints(5, 5)}, TypeError, f"max_qo_len is {ints(5, 5)}, accepted is a whole number or None"),
)
COMBINE: tuple[Row, ...] = (
    ({"library": "x"}, TypeError, "library is str, accepted is sparkctl.runtime.Library, or None"),
    (
        {"part_acc": fp32(2, 1, 8, 0, 64), "part_max": fp32(2, 1, 8, 0), "part_sum": fp32(2, 1, 8, 0)},
        ValueError,
        "num_splits is 0, accepted is 1 to 2147483647",
    ),
    (
        {"out": zeros(1, 1, 1, 64).expand(2, 1, 8, 64)},
        ValueError,
        "out has elements that share memory, accepted is a tensor without overlap",
    ),
)
MERGE: tuple[Row, ...] = (
    ({"library": "x"}, TypeError, "library is str, accepted is sparkctl.runtime.Library, or None"),
    ({"out": nested(3, 2, 1, 4, 64)}, TypeError, "out is a nested tensor, accepted is torch.Tensor of one shape"),
    (
        {"lse_": fp32(1).expand(2, 1, 4)},
        ValueError,
        "lse_ has elements that share memory, accepted is a tensor without overlap",
    ),
)
CALLS = [
    *((name, *row) for name in ATTENTION for row in SHARED),
    *((name, *row) for name in ATTENTION[:2] for row in DECODING),
    *(("prefill", *row) for row in PREFILL),
    *(("combine", *row) for row in COMBINE),
    *(("merge_states", *row) for row in MERGE),
]


def refused(library: Library | None, operator: str, changes: dict[str, Any]) -> Exception:
    if operator == "prefill" and "lse" in changes:
        changes = {"lse": fp32(1).expand(2, 5, 8)}
    with pytest.raises(Exception, match=r".") as caught:
        getattr(ops, operator)(**{**INPUTS[operator](), "library": library, **changes})
    return caught.value


@pytest.mark.parametrize("on_library", [False, True], ids=["torch", "library"])
@pytest.mark.parametrize(("operator", "changes", "error", "text"), CALLS)
def test_a_wrong_choice_is_an_error_that_says_what_is_accepted(
    small_library: Library, operator: str, changes: dict[str, Any], error: type[Exception], text: str, on_library: bool
) -> None:
    caught = refused(small_library if on_library else None, operator, changes)
    assert (type(caught), str(caught)) == (error, text)


def over(tensor: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype, shift: int = 0) -> torch.Tensor:
    """A tensor that lies `shift` elements into another's memory, which is made large enough."""
    flat = tensor.flatten().view(dtype)
    return flat.as_strided(shape, torch.empty(shape, device="meta").stride(), shift)


# operator, what is written, what it lies over, and how many elements into it
OVERLAPS = [
    *((name, "out", read, shift) for name in ("decode", "prefill") for read in ("q", "k", "v") for shift in (0, 8)),
    *(("paged_decode", "out", read, 512) for read in ("k_pages", "v_pages")),
    *((name, "lse", read, 0) for name in ("decode", "prefill") for read in ("k", "mask")),
    ("paged_decode", "lse", "k_pages", 16),
    ("combine", "out", "part_acc", 0),
    ("combine", "lse", "part_max", 0),
    ("merge_states", "out_", "out", 8),
    ("merge_states", "out_", "out", 512 + 64),
    ("merge_states", "lse_", "lse", 1),
    ("merge_states", "lse_", "out", 0),
    ("merge_states", "out_", "lse", 0),
]
ROWS = {
    "decode": (2, 1, 8),
    "paged_decode": (2, 1, 8),
    "prefill": (2, 5, 8),
    "combine": (2, 1, 8),
    "merge_states": (2, 1, 4),
}


@pytest.mark.parametrize("on_library", [False, True], ids=["torch", "library"])
@pytest.mark.parametrize(("operator", "written", "read", "shift"), OVERLAPS)
def test_memory_that_a_result_shares_with_an_input_is_refused(
    small_library: Library, operator: str, written: str, read: str, shift: int, on_library: bool
) -> None:
    inputs = {
        **INPUTS[operator](),
        **({"mask": shows(2, 8, 5 if operator == "prefill" else 1, 20)} if read == "mask" else {}),
    }
    pool = torch.zeros(1 << 16, dtype=torch.uint8)
    read_as = inputs[read]
    inputs[read] = pool[: read_as.nbytes].view(read_as.dtype).view(read_as.shape)
    rows = ROWS[operator]
    shape, dtype = ((*rows, 64), BF16) if written.startswith("out") else (rows, torch.float32)
    inputs[written] = over(pool, shape, dtype, shift)
    with pytest.raises(ValueError, match=f"{written} shares memory with {read}") as caught:
        getattr(ops, operator)(**inputs, library=small_library if on_library else None)
    assert str(caught.value).endswith(", accepted is memory of its own")


def test_a_workspace_that_shares_memory_is_refused(small_library: Library) -> None:
    inputs, part = decode_inputs(), fp32(2, 1, 8, 3)
    with pytest.raises(ValueError, match="part_max shares memory with part_sum, accepted is memory of its own"):
        ops.decode(**inputs, workspace=space(part_max=part, part_sum=part), library=small_library)
    whole = space()
    out = over(whole.part_acc, (2, 1, 8, 64), BF16)
    with pytest.raises(ValueError, match="out shares memory with part_acc, accepted is memory of its own"):
        ops.decode(**inputs, out=out, workspace=whole, library=small_library)
    with pytest.raises(ValueError, match="out shares memory with lse, accepted is memory of its own"):
        ops.decode(**inputs, out=out, lse=over(out, (2, 1, 8), torch.float32), library=small_library)


def test_slices_of_one_tensor_are_no_overlap(small_library: Library) -> None:
    whole = torch.randn(2, 20, 20, 64, generator=torch.Generator().manual_seed(3)).bfloat16()
    q, k, v, out = whole[:, :1, :8], whole[:, :, 8:10], whole[:, :, 10:12], whole[:, :1, 12:]
    expected = ops.decode(q.clone(), k.clone(), v.clone(), library=small_library)
    assert torch.equal(ops.decode(q, k, v, out=out, library=small_library), expected)


@pytest.mark.parametrize("operator", ATTENTION)
def test_a_misspelled_flag_in_the_environment_is_an_error_of_the_call(
    small_library: Library, operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, inputs = getattr(ops, operator), INPUTS[operator]()
    if operator != "prefill":  # of which no kernel is built here
        call(**inputs, library=small_library)
    monkeypatch.setenv("SPARKCTL_FLAG_FAPIP", "0")
    with pytest.raises(ValueError, match="SPARKCTL_FLAG_FAPIP in the environment names no flag: did you mean"):
        call(**inputs, library=small_library)
    call(**inputs)  # plain torch reads no flags


@pytest.mark.parametrize("state", [0, 2])
def test_states_may_be_merged_in_place(state: int) -> None:
    generator = torch.Generator().manual_seed(4)
    out, lse = torch.randn(3, 2, 1, 4, 64, generator=generator).bfloat16(), torch.randn(3, 2, 1, 4, generator=generator)
    expected = ops.merge_states(out.clone(), lse.clone())
    merged = ops.merge_states(out, lse, out_=out[state], lse_=lse[state])
    assert all(torch.equal(a, b) for a, b in zip(merged, expected, strict=True))


@pytest.mark.parametrize(
    ("operator", "on_library"), [("paged_decode", False), ("paged_decode", True), ("prefill", False)]
)
def test_a_key_without_any_page_is_refused(small_library: Library, operator: str, on_library: bool) -> None:
    pages = zeros(0, 8, 2, 64)
    call = getattr(ops, operator)
    paged = {**paged_inputs(), "k_pages": pages, "v_pages": pages}
    if operator == "prefill":
        paged = {("k" if n == "k_pages" else "v" if n == "v_pages" else n): value for n, value in paged.items()}
    with pytest.raises(ValueError, match="k_pages has 0 pages, accepted is 1 or more where a sequence has keys"):
        call(**paged, library=small_library if on_library else None)
    assert call(**{**paged, "kv_lens": ints(0, 0)}, library=small_library if on_library else None).shape == (
        2,
        1,
        8,
        64,
    )


@pytest.mark.parametrize(
    ("q", "num_splits", "error", "text"),
    [
        ([1], 2, TypeError, "q is list, accepted is torch.Tensor"),
        (
            zeros(10, 8, 64),
            2,
            ValueError,
            "q has shape [10, 8, 64], accepted is rank 4 [batch, qo_len, num_qo_heads, head_dim]",
        ),
        (zeros(2, 1, 8, 64), -1, ValueError, "num_splits is -1, accepted is 1 or more"),
        (zeros(2, 1, 8, 64), 65536, ValueError, "num_splits is 65536, accepted is 1 to 65535"),
        (zeros(2, 1, 8, 64), True, TypeError, "num_splits is True, accepted is a whole number"),
        (zeros(2, 1, 8, 64), None, TypeError, "num_splits is None, accepted is a whole number"),
        (zeros(2, 1, 8, 64), 2.0, TypeError, "num_splits is 2.0, accepted is a whole number"),
    ],
)
def test_a_workspace_that_cannot_be_is_refused(q: Any, num_splits: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        ops.allocate_workspace(q, num_splits)
    assert str(caught.value) == text
