"""Options whose values lie at the ends of what is accepted."""

from __future__ import annotations

import pytest
import torch

from sparkctl import ops

Q = torch.randn(1, 2, 4, 64, generator=torch.Generator().manual_seed(1)).bfloat16()
PAGES = torch.randn(4, 16, 2, 64, generator=torch.Generator().manual_seed(2)).bfloat16()
TABLE = torch.tensor([[1, 2, 3]], dtype=torch.int32)
LENS = torch.tensor([20], dtype=torch.int32)  # shorter than the table has room for


@pytest.mark.parametrize("window", [2**30, 2**31 - 1, 2**31 + 5, 2**40, 2**62])
def test_a_window_longer_than_any_sequence_hides_nothing(window: int) -> None:
    assert torch.equal(
        ops.paged_decode(Q, PAGES, PAGES, TABLE, LENS, window=window), ops.paged_decode(Q, PAGES, PAGES, TABLE, LENS)
    )
    options = {"page_table": TABLE, "kv_lens": LENS}
    assert torch.equal(ops.prefill(Q, PAGES, PAGES, window=window, **options), ops.prefill(Q, PAGES, PAGES, **options))


@pytest.mark.parametrize("softcap", [1e-50, 1e-4, 1e5, 1e30])
def test_a_soft_cap_that_fp32_cannot_hold_is_refused(softcap: float) -> None:
    with pytest.raises(ValueError, match=r"softcap is .*, accepted is 0.001 to 10000.0, or None for no cap"):
        ops.decode(Q, PAGES[:1], PAGES[:1], softcap=softcap)
