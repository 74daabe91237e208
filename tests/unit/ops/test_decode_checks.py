"""What the decode operator refuses, and that plain torch serves CPU tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from sparkctl import ops


def inputs(**changes: Any) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(7)

    def rand(*size: int) -> torch.Tensor:
        return torch.randn(*size, generator=generator).to(torch.bfloat16)

    values: dict[str, Any] = {"q": rand(2, 1, 8, 64), "k": rand(2, 33, 2, 64), "v": rand(2, 33, 2, 64)}
    return {**values, **changes}


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"q": np.zeros((2, 1, 8, 64))}, TypeError, "q is ndarray, accepted is torch.Tensor"),
        ({"q": torch.zeros(2, 8, 64, dtype=torch.bfloat16)}, ValueError, "q has shape [2, 8, 64], accepted is rank 4"),
        ({"q": torch.zeros(2, 1, 8, 64)}, TypeError, "q has dtype torch.float32"),
        ({"q": torch.zeros(2, 1, 8, 64, dtype=torch.bfloat16, requires_grad=True)}, ValueError, "q requires grad"),
        (
            {"q": torch.zeros(2, 1, 7, 64, dtype=torch.bfloat16)},
            ValueError,
            "num_qo_heads is 7, accepted is a multiple",
        ),
        ({"v": torch.zeros(2, 33, 2, 64, dtype=torch.float16)}, TypeError, "v has dtype torch.float16"),
        ({"v": torch.zeros(2, 32, 2, 64, dtype=torch.bfloat16)}, ValueError, "v has shape [2, 32, 2, 64]"),
        ({"k": torch.zeros(1, 33, 2, 64, dtype=torch.bfloat16)}, ValueError, "k has shape [1, 33, 2, 64]"),
        ({"kv_lens": torch.tensor([1, 2])}, TypeError, "kv_lens has dtype torch.int64"),
        ({"kv_lens": torch.tensor([1], dtype=torch.int32)}, ValueError, "kv_lens has shape [1]"),
        ({"kv_lens": torch.tensor([1, 34], dtype=torch.int32)}, ValueError, "kv_lens is [1, 34], accepted is 0 to 33"),
        ({"kv_lens": torch.tensor([-1, 3], dtype=torch.int32)}, ValueError, "kv_lens is [-1, 3]"),
        ({"num_splits": 0}, ValueError, "num_splits is 0, accepted is 1 to 65535"),
        ({"num_splits": 2**40}, ValueError, "accepted is 1 to 65535"),
        ({"num_splits": 1.5}, TypeError, "num_splits is 1.5, accepted is a whole number"),
        ({"max_kv_len": "x"}, TypeError, "max_kv_len is 'x', accepted is a whole number"),
        ({"backend": "emulater"}, ValueError, "backend is 'emulater', accepted are auto, cuda, emulator, torch"),
        ({"backend": None}, ValueError, "backend is None, accepted are"),
        ({"backend": "torch", "variant": "zz"}, ValueError, "backend is 'torch', which accepts no kernel, variant"),
        ({"backend": "cuda"}, ValueError, "q is on cpu, which backend 'cuda' does not accept"),
        ({"workspace": (1, 2)}, TypeError, "workspace is tuple, accepted is sparkctl.ops.Workspace"),
        ({"q": torch.zeros(2, 1, 8, 0, dtype=torch.bfloat16)}, ValueError, "head_dim is 0"),
        ({"q": torch.zeros(2, 1, 8, 64, dtype=torch.bfloat16).to_sparse()}, TypeError, "q has layout torch.sparse_coo"),
        ({"max_kv_len": 34}, ValueError, "max_kv_len is 34"),
        ({"out": torch.zeros(2, 1, 8, 32, dtype=torch.bfloat16)}, ValueError, "out has shape [2, 1, 8, 32]"),
    ],
)
def test_a_bad_argument_is_named_with_what_is_accepted(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        ops.decode(**inputs(**changes))
    assert message in str(caught.value)


def test_cpu_tensors_get_plain_torch_and_match_sdpa() -> None:
    args = inputs()
    out, lse = ops.decode(**args, return_lse=True)
    heads_first = [args[name].transpose(1, 2).float() for name in ("q", "k", "v")]
    expected = torch.nn.functional.scaled_dot_product_attention(*heads_first, enable_gqa=True).transpose(1, 2)
    torch.testing.assert_close(out.float(), expected, atol=2e-2, rtol=2e-2)
    assert lse.shape == (2, 1, 8)
    assert "torch" in ops.decode(**args, explain=True)


def test_unused_keys_and_rows_without_keys_leave_no_nan() -> None:
    args = inputs(kv_lens=torch.tensor([0, 5], dtype=torch.int32))
    args["k"][1, 5:] = float("nan")
    args["v"][:, 5:] = float("nan")
    args["v"][0] = float("nan")
    out, lse = ops.decode(**args, return_lse=True)
    assert (out[0] == 0).all()
    assert (lse[0] == -torch.inf).all()
    assert out[1].isfinite().all()


def test_out_is_written_in_place() -> None:
    args = inputs()
    out = torch.full_like(args["q"], float("nan"))
    assert ops.decode(**args, out=out) is out
    assert out.isfinite().all()
