"""A small Qwen3 from transformers whose attention is ours: its logits beside torch SDPA's, over a prompt and 32 steps.

The rule is the kernels' own, one level up. The reference is the same model with the same rounded weights in fp64. Over
all positions our largest error may be twice the largest of the model with SDPA in the same dtype plus one ulp of the
largest logit, and our root mean square error twice SDPA's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cache

import pytest
import torch
from builds import default_build
from transformers import DynamicCache, Qwen3Config, Qwen3ForCausalLM

from sparkctl import ops
from sparkctl.ops import huggingface
from sparkctl.runtime import Library
from sparkctl.testing.compare import ulp

LAYERS, QO_HEADS, KV_HEADS, HEAD_DIM, VOCABULARY = 2, 32, 4, 128, 96
BATCH, PROMPT, STEPS = 2, 40, 32
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
KERNELS = ["attn_decode_split_kv_mma", "attn_paged_decode_split_kv_mma", "attn_combine", "attn_prefill_split_q_mma"]
# Its name in the 5.x releases: the older one is deprecated.
CACHE_ARGUMENT = "cache" if "cache" in inspect.signature(Qwen3ForCausalLM.forward).parameters else "past_key_values"
Run = Callable[[Qwen3ForCausalLM, torch.Tensor], torch.Tensor]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    where = {"head_dim": [str(HEAD_DIM)], "stages": ["2"]}
    with default_build(tmp_path_factory.mktemp("mini"), KERNELS, where) as library:
        yield library


def make_model(dtype: torch.dtype, device: str) -> Qwen3ForCausalLM:
    """Random weights, the same for every dtype but for their rounding."""
    torch.manual_seed(17)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=LAYERS,
        num_attention_heads=QO_HEADS,
        num_key_value_heads=KV_HEADS,
        head_dim=HEAD_DIM,
        max_position_embeddings=PROMPT + STEPS,
        initializer_range=0.05,
        tie_word_embeddings=False,
    )
    model = Qwen3ForCausalLM(config).eval().requires_grad_(False)
    model.set_attn_implementation("sdpa")
    return model.to(dtype).to(device)


def tokens(device: str) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randint(VOCABULARY, (BATCH, PROMPT + STEPS), generator=generator).to(device)


def parts() -> list[slice]:
    """The prompt, then one position at a time."""
    return [slice(0, PROMPT), *(slice(i, i + 1) for i in range(PROMPT, PROMPT + STEPS))]


def over_a_cache(model: Qwen3ForCausalLM, ids: torch.Tensor) -> torch.Tensor:
    """Logits [batch, positions, vocabulary] through transformers' own growing cache."""
    kept = {CACHE_ARGUMENT: DynamicCache(config=model.config)}
    return torch.cat([model(ids[:, part], **kept).logits for part in parts()], 1)


def over_pages(pages: ops.PagedCache) -> Run:
    """Logits through keys that lie in our pages."""

    def run(model: Qwen3ForCausalLM, ids: torch.Tensor) -> torch.Tensor:
        logits = []
        for part in parts():
            pages.extend(part.stop - part.start)
            logits.append(model(ids[:, part], position_ids=pages.positions, use_cache=False).logits)
        return torch.cat(logits, 1)

    return run


def logits_of(kept: str, dtype: torch.dtype, device: str, backend: str) -> torch.Tensor:
    """Our logits over keys kept contiguous or paged."""
    model, pages = make_model(dtype, device), None
    if kept == "paged":
        pages = ops.PagedCache(
            num_layers=LAYERS,
            batch=BATCH,
            max_kv_len=PROMPT + STEPS,
            num_kv_heads=KV_HEADS,
            head_dim=HEAD_DIM,
            page_size=16,
            dtype=dtype,
            device=device,
        )
    huggingface.register("sparkctl_mini", backend, pages=pages)  # type: ignore[arg-type]
    model.set_attn_implementation("sparkctl_mini")
    with torch.no_grad():
        return (over_a_cache if pages is None else over_pages(pages))(model, tokens(device))


def errors(logits: torch.Tensor, reference: torch.Tensor) -> tuple[float, float]:
    """The largest and the root mean square."""
    error = (logits.double() - reference).abs()
    return float(error.max()), float(error.square().mean().sqrt())


@cache
def judges(dtype_name: str, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The logits in fp64, and those of SDPA in the dtype."""
    with torch.no_grad():
        exact = make_model(DTYPES[dtype_name], device).double()
        reference = exact(tokens(device), use_cache=False).logits
        return reference, over_a_cache(make_model(DTYPES[dtype_name], device), tokens(device))


def check(logits: torch.Tensor, dtype_name: str, device: str) -> None:
    reference, sdpa = judges(dtype_name, device)
    largest, rms = errors(logits, reference)
    allowed_largest, allowed_rms = (2 * error for error in errors(sdpa, reference))
    allowed_largest += float(ulp(reference.abs().max(), dtype_name))
    print(f"largest error {largest:.3g} of {allowed_largest:.3g}, rms {rms:.3g} of {allowed_rms:.3g}")
    assert largest <= allowed_largest
    assert rms <= allowed_rms


@pytest.mark.parametrize("dtype", list(DTYPES))
@pytest.mark.parametrize("kept", ["contiguous", "paged"])
def test_the_logits_are_those_of_sdpa_on_the_emulator(library: Library, kept: str, dtype: str) -> None:
    before = library.emulator_launch_count()
    logits = logits_of(kept, DTYPES[dtype], "cpu", "emulator")
    assert library.emulator_launch_count() - before == LAYERS * (1 + STEPS * 2)  # prefill; decode and combine
    check(logits, dtype, "cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", list(DTYPES))
@pytest.mark.parametrize("kept", ["contiguous", "paged"])
def test_the_logits_are_those_of_sdpa_on_a_device(kept: str, dtype: str) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    check(logits_of(kept, DTYPES[dtype], "cuda", "cuda"), dtype, "cuda")


def test_the_rule_fails_a_model_that_overlooks_one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that equal logits mean something: one key of 40 to 72 left out is far outside."""
    whole = huggingface.decode
    monkeypatch.setattr(huggingface, "decode", lambda q, k, v, **options: whole(q, k[:, 1:], v[:, 1:], **options))
    logits = logits_of("contiguous", torch.bfloat16, "cpu", "torch")
    with pytest.raises(AssertionError):
        check(logits, "bf16", "cpu")
