"""Sinks at the ends of fp32 and past them: weights and lse stay what they mean, on the kernels and in plain torch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from builds import default_build

from sparkctl import ops

KERNELS = ["attn_decode_split_kv", "attn_prefill_split_q", "attn_prefill_split_q_mma", "attn_combine"]
LARGEST = torch.finfo(torch.float32).max
SINKS = torch.tensor([-math.inf, -LARGEST, -3e38, 0.0, 2.4e38, 3.4e38, LARGEST, math.inf])
OUTWEIGHED = SINKS > 1e38


@pytest.fixture(scope="module", autouse=True)
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with default_build(tmp_path_factory.mktemp("sinks"), KERNELS, {"head_dim": ["64"], "dtype": ["bf16"]}):
        yield


def rand(*size: int) -> torch.Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(sum(size))).bfloat16()


CALLS: dict[str, dict[str, Any]] = {
    "decode": {},
    "prefill": {"kernel": "attn_prefill_split_q"},
    "prefill, tensor cores": {"kernel": "attn_prefill_split_q_mma"},
    "decode in plain torch": {"backend": "torch"},
}


def attention(name: str, kv_len: int, sinks: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    options: dict[str, Any] = {"backend": "emulator", **CALLS[name]}
    call = ops.prefill if name.startswith("prefill") else ops.decode
    q, k, v = rand(2, 3, 8, 64), rand(2, kv_len, 2, 64), rand(2, kv_len, 2, 64) + 1
    out, lse = call(q, k, v, sinks=sinks, return_lse=True, **options)
    return out, lse


@pytest.mark.parametrize("name", CALLS)
def test_a_sink_that_outweighs_every_key_gives_zero_and_its_own_lse(name: str) -> None:
    out, lse = attention(name, 40, SINKS)
    plain, plain_lse = attention(name, 40, None)
    assert (out[:, :, OUTWEIGHED] == 0).all()
    assert torch.equal(lse[:, :, OUTWEIGHED], SINKS[OUTWEIGHED].expand(2, 3, 4))
    assert torch.equal(out[:, :, :3], plain[:, :, :3])  # sinks that weigh nothing
    assert torch.equal(lse[:, :, :3], plain_lse[:, :, :3])
    torch.testing.assert_close(lse[:, :, 3], torch.logaddexp(plain_lse[:, :, 3], torch.zeros(())), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", CALLS)
def test_without_keys_the_sink_alone_is_the_lse(name: str) -> None:
    out, lse = attention(name, 0, SINKS)
    assert (out == 0).all()
    assert torch.equal(lse, SINKS.expand(2, 3, 8))


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kv_len", [0, 40])
def test_a_sink_that_is_no_number_reaches_the_results(name: str, kv_len: int) -> None:
    sinks = torch.zeros(8)
    sinks[5] = math.nan
    out, lse = attention(name, kv_len, sinks)
    for result in (out.isnan().all(-1), out.isnan().any(-1), lse.isnan()):
        assert result[:, :, 5].all()
        assert not result[:, :, :5].any()
        assert not result[:, :, 6:].any()


@pytest.mark.parametrize("backend", ["auto", "emulator"])
@pytest.mark.parametrize("part_sum", [0.0, 2.0])
def test_combine_keeps_large_sinks_apart_from_infinite_ones(backend: Any, part_sum: float) -> None:
    parts = (torch.ones(1, 1, 8, 3, 64), torch.zeros(1, 1, 8, 3), torch.full((1, 1, 8, 3), part_sum))
    out, lse = ops.combine(*parts, dtype=torch.bfloat16, sinks=SINKS, backend=backend)
    assert (out[:, :, OUTWEIGHED] == 0).all()
    assert torch.equal(lse[0, 0, OUTWEIGHED], SINKS[OUTWEIGHED])
    alone, alone_lse = ops.combine(*parts, dtype=torch.bfloat16, backend=backend)
    assert torch.equal(out[:, :, :3], alone[:, :, :3])
    assert torch.equal(lse[:, :, 1:3], alone_lse[:, :, 1:3] if part_sum else SINKS[None, None, 1:3])
    sinks = SINKS.clone()
    sinks[4] = math.nan
    out, lse = ops.combine(*parts, dtype=torch.bfloat16, sinks=sinks, backend=backend)
    assert out.isnan().any(-1)[0, 0].tolist() == lse.isnan()[0, 0].tolist() == [head == 4 for head in range(8)]
