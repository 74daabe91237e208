"""What the paged cache refuses: one typed error that names the argument."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from sparkctl.ops import PagedCache

SIZES: dict[str, Any] = {"num_layers": 1, "batch": 1, "max_kv_len": 20, "num_kv_heads": 2, "head_dim": 64}


@pytest.mark.parametrize("name", [*SIZES, "page_size"])
@pytest.mark.parametrize("size", [0, -1, True, 2.5, "2", None])
def test_a_size_is_a_whole_number_from_one_on(name: str, size: Any) -> None:
    whole = isinstance(size, int) and not isinstance(size, bool)
    text = f"{name} is {size!r}, accepted is {'1 or more' if whole else 'a whole number'}"
    with pytest.raises(ValueError if whole else TypeError) as caught:
        PagedCache(**{**SIZES, name: size})
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        (
            {"dtype": torch.float32},
            TypeError,
            "dtype is torch.float32, accepted are torch.bfloat16 and torch.float16, or None for the first",
        ),
        (
            {"dtype": "bf16"},
            TypeError,
            "dtype is 'bf16', accepted are torch.bfloat16 and torch.float16, or None for the first",
        ),
        ({"device": "nope"}, ValueError, "device is 'nope', accepted is a device of torch, as in 'cpu' or 'cuda:0'"),
        ({"device": None}, ValueError, "device is None, accepted is a device of torch, as in 'cpu' or 'cuda:0'"),
    ],
)
def test_a_kind_that_no_kernel_reads_is_refused(changes: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        PagedCache(**{**SIZES, **changes})
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("count", "error", "text"),
    [
        (0, ValueError, "count is 0, accepted is 1 or more"),
        (33, ValueError, "count is 33, accepted is 1 to 32, the room that is left"),
        (True, TypeError, "count is True, accepted is a whole number"),
        (1.5, TypeError, "count is 1.5, accepted is a whole number"),
        (None, TypeError, "count is None, accepted is a whole number"),
        (np.int64(2), TypeError, "count is np.int64(2), accepted is a whole number"),
    ],
)
def test_an_extension_that_cannot_be_leaves_the_cache_as_it_was(count: Any, error: type[Exception], text: str) -> None:
    pages = PagedCache(**SIZES)
    with pytest.raises(error) as caught:
        pages.extend(count)
    assert str(caught.value) == text
    assert (pages.kv_len, int(pages.kv_lens[0])) == (0, 0)


def keys(**kind: Any) -> torch.Tensor:
    return torch.zeros(1, 2, 2, 64, **{"dtype": torch.bfloat16, **kind})


@pytest.mark.parametrize(
    ("layer", "k", "error", "text"),
    [
        (1, keys(), ValueError, "layer is 1, accepted is 0 to 0"),
        (-1, keys(), ValueError, "layer is -1, accepted is 0 or more"),
        (False, keys(), TypeError, "layer is False, accepted is a whole number"),
        (0, None, TypeError, "k is NoneType, accepted is torch.Tensor"),
        (
            0,
            keys(dtype=torch.float32),
            TypeError,
            "k has dtype torch.float32, accepted is that of the cache: torch.bfloat16",
        ),
        (0, keys(device="meta"), ValueError, "k is on meta, accepted is the device of the cache: cpu"),
        (
            0,
            keys()[:, :1],
            ValueError,
            "k has shape [1, 1, 2, 64], accepted is [1, 2, 2, 64] [batch, count, heads, head_dim]",
        ),
        (
            0,
            keys(requires_grad=True),
            ValueError,
            "k requires grad, accepted is inference only: use torch.no_grad() or .detach()",
        ),
    ],
)
def test_keys_that_do_not_fit_are_refused(layer: Any, k: Any, error: type[Exception], text: str) -> None:
    pages = PagedCache(**SIZES)
    pages.extend(2)
    with pytest.raises(error) as caught:
        pages.write(layer, k, keys())
    assert str(caught.value) == text
