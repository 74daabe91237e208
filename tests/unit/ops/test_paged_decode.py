"""The paged operator on plain torch, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from sparkctl import ops


def inputs(**changes: Any) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(9)

    def rand(*size: int) -> torch.Tensor:
        return torch.randn(*size, generator=generator).to(torch.bfloat16)

    values: dict[str, Any] = {
        "q": rand(2, 1, 8, 64),
        "k_pages": rand(7, 16, 2, 64),
        "v_pages": rand(7, 16, 2, 64),
        "page_table": torch.tensor([[6, 1, 3], [2, 0, 1 << 30]], dtype=torch.int32),
        "kv_lens": torch.tensor([40, 17], dtype=torch.int32),
    }
    return {**values, **changes}


def test_the_fallback_equals_decode_over_gathered_keys() -> None:
    args = inputs()
    out, lse = ops.paged_decode(**args, return_lse=True)
    for b, pages in enumerate(([6, 1, 3], [2, 0])):
        length = int(args["kv_lens"][b])
        k, v = (args[name][pages].flatten(0, 1)[None, :length] for name in ("k_pages", "v_pages"))
        one, one_lse = ops.decode(args["q"][b : b + 1], k, v, return_lse=True)
        torch.testing.assert_close(out[b : b + 1], one)
        torch.testing.assert_close(lse[b : b + 1], one_lse)


def test_what_a_window_hides_from_every_query_may_hold_anything() -> None:
    args = inputs()
    expected = ops.paged_decode(**args, window=3)
    args["page_table"][0, :2] = 1 << 30  # sequence 0 sees the keys from 36 on, in its third page
    args["k_pages"][3, :4] = float("nan")
    args["v_pages"][3, :4] = float("nan")
    args["k_pages"][2, :12] = float("nan")
    torch.testing.assert_close(ops.paged_decode(**args, window=3), expected, rtol=0, atol=0)
    with pytest.raises(ValueError, match=r"page_table holds .*1073741824"):
        ops.paged_decode(**args, window=8)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"page_table": torch.zeros(2, 3, dtype=torch.int64)}, TypeError, "page_table has dtype torch.int64"),
        ({"page_table": torch.zeros(3, 3, dtype=torch.int32)}, ValueError, "page_table has shape [3, 3]"),
        ({"page_table": torch.zeros(6, dtype=torch.int32)}, ValueError, "page_table has shape [6], accepted is rank 2"),
        ({"page_table": torch.full((2, 3), 7, dtype=torch.int32)}, ValueError, "accepted is 0 to 6, the pages"),
        ({"page_table": torch.full((2, 3), -1, dtype=torch.int32)}, ValueError, "accepted is 0 to 6, the pages"),
        ({"kv_lens": torch.tensor([49, 1], dtype=torch.int32)}, ValueError, "accepted is 0 to 48, the keys that page"),
        ({"kv_lens": None}, TypeError, "kv_lens is NoneType"),
        ({"k_pages": torch.zeros(7, 0, 2, 64, dtype=torch.bfloat16)}, ValueError, "page_size is 0"),
        ({"v_pages": torch.zeros(7, 16, 2, 32, dtype=torch.bfloat16)}, ValueError, "v_pages has shape [7, 16, 2, 32]"),
        ({"k_pages": torch.zeros(7, 16, 2, 64)}, TypeError, "k_pages has dtype torch.float32"),
        ({"max_kv_len": 49}, ValueError, "max_kv_len is 49, accepted is 0 to 48"),
    ],
)
def test_a_bad_argument_is_named_with_what_is_accepted(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        ops.paged_decode(**inputs(**changes))
    assert message in str(caught.value)
