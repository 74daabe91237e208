"""Options whose values lie at the ends of what is accepted."""

from __future__ import annotations

import pytest
import torch

from sparkctl import ops

Q = torch.randn(1, 2, 4, 64, generator=torch.Generator().manual_seed(1)).bfloat16()
PAGES = torch.randn(4, 16, 2, 64, generator=torch.Generator().manual_seed(2)).bfloat16()
TABLE = torch.tensor([[1, 2, 3]], dtype=torch.int32)
LENS = torch.tensor([20], dtype=torch.int32)  # shorter than the table has room for


@pytest.mark.parametrize("window", [2**30, 2**31 - 1, 2**31 + 5, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 + 3, 10**30])
def test_a_window_longer_than_any_sequence_hides_nothing(window: int) -> None:
    assert torch.equal(
        ops.paged_decode(Q, PAGES, PAGES, TABLE, LENS, window=window), ops.paged_decode(Q, PAGES, PAGES, TABLE, LENS)
    )
    options = {"page_table": TABLE, "kv_lens": LENS}
    assert torch.equal(ops.prefill(Q, PAGES, PAGES, window=window, **options), ops.prefill(Q, PAGES, PAGES, **options))


@pytest.mark.parametrize("softcap", [None, 1e-3, 1.0, 1e4])
@pytest.mark.parametrize("scale", [0.0, 1e-30, -1e-30, 1e30, -1e30])
def test_at_the_ends_of_the_scales_results_are_numbers(scale: float, softcap: float | None) -> None:
    out, lse = ops.decode(Q, PAGES[:1], PAGES[:1], scale=scale, softcap=softcap, return_lse=True)
    assert out.isfinite().all()
    assert lse.isfinite().all()


@pytest.mark.parametrize("softcap", [None, 1e-3, 1e4])
@pytest.mark.parametrize("scale", [1e39, 3e38, 1e31, 9e-31, 1e-38, 1e-45, 1e-50])
def test_a_scale_that_fp32_cannot_hold_is_refused(scale: float, softcap: float | None) -> None:
    for sign in (1, -1):
        with pytest.raises(ValueError, match=r"scale is .*, accepted is 0, or 1e-30 to 1e\+30 with either sign"):
            ops.decode(Q, PAGES[:1], PAGES[:1], scale=sign * scale, softcap=softcap)


@pytest.mark.parametrize("softcap", [1e-50, 1e-4, 1e5, 1e30])
def test_a_soft_cap_that_fp32_cannot_hold_is_refused(softcap: float) -> None:
    with pytest.raises(ValueError, match=r"softcap is .*, accepted is 0.001 to 10000.0, or None for no cap"):
        ops.decode(Q, PAGES[:1], PAGES[:1], softcap=softcap)
