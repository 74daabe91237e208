"""Pages are made so that what lies in them is what was there, in another order, and NaN behind it."""

import pytest
import torch

from sparkctl.ops.fallback import gather_pages
from sparkctl.testing.arms import to_pages


@pytest.mark.parametrize(("batch", "kv_len", "page_size"), [(2, 40, 16), (1, 16, 16), (3, 5, 1), (2, 1, 8)])
def test_pages_hold_the_keys(batch: int, kv_len: int, page_size: int) -> None:
    k, v = torch.randn(batch, kv_len, 2, 8), torch.randn(batch, kv_len, 2, 8)
    k_pages, v_pages, table = to_pages(k, v, page_size)
    pages = -(-kv_len // page_size)
    assert (k_pages.shape, table.shape) == ((batch * pages, page_size, 2, 8), (batch, pages))
    lens = torch.full((batch,), kv_len, dtype=torch.int32)
    for whole, paged in ((k, k_pages), (v, v_pages)):
        assert torch.equal(gather_pages(paged, table, lens, None)[:, :kv_len], whole)
    assert int(k_pages.isnan().sum()) == batch * (pages * page_size - kv_len) * 16


def test_the_pages_are_shuffled() -> None:
    _, _, table = to_pages(torch.zeros(2, 64, 1, 8), torch.zeros(2, 64, 1, 8), 4)
    assert sorted(table.flatten().tolist()) == list(range(32)) != table.flatten().tolist()
