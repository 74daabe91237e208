"""The operators as an attention implementation of Hugging Face transformers.

    from sparkctl.ops import huggingface
    huggingface.register()
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="sparkctl", dtype=torch.bfloat16)

transformers is optional; it is imported when `register` is called.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, get_args

from sparkctl.errors import MissingTool
from sparkctl.ops import checks
from sparkctl.ops.call import OperatorBackend
from sparkctl.ops.decode import decode
from sparkctl.ops.paged_cache import PagedCache
from sparkctl.ops.paged_decode import paged_decode
from sparkctl.ops.prefill import prefill

if TYPE_CHECKING:
    import torch

HEADS_FIRST_AXES = "[batch, heads, length, head_dim]"
MAX_DECODE_QO_LEN = 16  # what the decode kernels accept


def register(name: str = "sparkctl", backend: OperatorBackend = "auto", *, pages: PagedCache | None = None) -> None:
    """Make `attn_implementation=name` of any transformers model call sparkctl's operators.

    With `pages` the keys are kept there instead of in a transformers cache: call `pages.extend(n)` and then the model
    with `position_ids=pages.positions` and `use_cache=False`. Raises TypeError and ValueError naming the argument,
    MissingTool when transformers 5 is not installed.
    """
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"name is {name!r}, accepted is a name for attn_implementation")
    if not isinstance(backend, str) or backend not in get_args(OperatorBackend):
        raise ValueError(f"backend is {backend!r}, accepted are {', '.join(get_args(OperatorBackend))}")
    _check_pages(pages)
    try:
        from transformers import AttentionInterface
        from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
    except ImportError as error:
        raise MissingTool(f"transformers cannot be imported: {error}", hint="pip install 'transformers>=5'") from error
    AttentionInterface.register(name, functools.partial(attention, backend=backend, pages=pages))
    # Without a mask function transformers would make none, and padding would be attended to.
    AttentionMaskInterface.register(name, sdpa_mask)


def attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    is_causal: bool | None = None,
    *,
    backend: OperatorBackend = "auto",
    pages: PagedCache | None = None,
    operator: Callable[..., torch.Tensor] | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """transformers' attention interface.

    query [batch, heads, qo_len, head_dim], key and value [batch, kv heads, kv_len, head_dim] ->
    (out [batch, qo_len, heads, head_dim], None).

    A mask [batch or 1, heads or 1, qo_len, kv_len or more] says everything about visibility: boolean, or additive with
    0 where visible and the dtype's minimum or -inf where hidden. Without one, attention is causal if the module is, and
    `sliding_window` counts the query's own key, as transformers does. `s_aux` or `sinks` holds one logit a query head.
    Up to 16 query positions are a decode call, more are prefill; an `operator` is called in place of both, with
    q, k, v and the options of either. Raises TypeError and ValueError naming the argument,
    for dropout and for what cannot be expressed too.
    """
    _check_pages(pages)
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        checks.check_tensor(name, tensor)
        checks.check_rank(name, tensor, 4, HEADS_FIRST_AXES)
    if is_causal is not None:
        checks.check_bool("is_causal", is_causal)
    checks.check_int("sliding_window", sliding_window)
    if sliding_window is not None and sliding_window < 1:
        raise ValueError(f"sliding_window is {sliding_window}, accepted is 1 or more, or None for no window")
    if dropout:
        raise ValueError(f"dropout is {dropout}, accepted is 0: inference only")
    for name in ("position_bias", "output_attentions"):
        if kwargs.get(name) is not None and kwargs[name] is not False:
            raise ValueError(f"{name} is given, accepted is none: the operators have no such result or input")
    if attention_mask is None and kwargs.get("cu_seq_lens_q") is not None:
        raise ValueError("cu_seq_lens_q is given without a mask, accepted are padded batches")
    q, k, v = (tensor.transpose(1, 2) for tensor in (query, key, value))
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    sinks = s_aux if s_aux is not None else kwargs.get("sinks")
    if sinks is not None:
        checks.check_tensor("sinks" if s_aux is None else "s_aux", sinks)
    options: dict[str, Any] = {"scale": scaling, "softcap": softcap, "sinks": None if sinks is None else sinks.float()}
    if attention_mask is None:
        options |= {"causal": causal, "window": None if sliding_window is None else sliding_window - 1}
    if pages is not None:
        if attention_mask is not None:
            raise ValueError("attention_mask is given, accepted with pages is none: every sequence has the same length")
        layer = getattr(module, "layer_idx", None)
        if layer is None:
            raise ValueError("module has no layer_idx, accepted with pages is an attention layer that knows its number")
        return _over_pages(q, k, v, pages, layer, backend, options), None
    if attention_mask is not None:
        options["mask"] = visible_mask(attention_mask, q.shape[0], k.shape[1])
    elif causal and k.shape[1] > q.shape[1] > 1:
        # The mask function makes no mask for keys behind the queries in one case alone: a static cache that was empty.
        k, v = k[:, : q.shape[1]], v[:, : q.shape[1]]
    if operator is not None:
        return operator(q, k, v, **options), None
    own = decode if q.shape[1] <= MAX_DECODE_QO_LEN else prefill
    return own(q, k, v, backend=backend, **options), None


def _check_pages(pages: Any) -> None:
    if pages is not None and not isinstance(pages, PagedCache):
        raise TypeError(f"pages is {type(pages).__name__}, accepted is sparkctl.ops.PagedCache, or None")


def visible_mask(mask: torch.Tensor, batch: int, kv_len: int) -> torch.Tensor:
    """A transformers mask [batch or 1, heads or 1, qo_len, kv_len or more] as a boolean one of exactly kv_len keys.

    An additive mask's values are read, which waits for the device; not while torch.compile traces or a CUDA graph is
    captured.
    """
    import torch

    checks.check_tensor("attention_mask", mask)
    if mask.dim() != 4 or mask.shape[3] < kv_len:
        accepted = f"[batch or 1, heads or 1, qo_len, {kv_len} or more]"
        raise ValueError(f"attention_mask has shape {list(mask.shape)}, accepted is {accepted}")
    mask = mask[..., :kv_len]
    if mask.dtype != torch.bool:
        mask = _visible_of_additive(mask)
    if mask.shape[0] == 1:
        mask = mask.expand(batch, -1, -1, -1)
    return mask if mask.stride(-1) == 1 or kv_len == 1 else mask.contiguous()


def _visible_of_additive(mask: torch.Tensor) -> torch.Tensor:
    import torch

    if not mask.is_floating_point():
        raise ValueError(f"attention_mask has dtype {mask.dtype}, accepted are torch.bool and additive float masks")
    visible = mask == 0
    unread = torch.compiler.is_compiling() or (mask.is_cuda and torch.cuda.is_current_stream_capturing())
    least = torch.finfo(mask.dtype).min
    if not unread and not bool((visible | (mask <= least)).all()):
        raise ValueError(f"attention_mask holds a bias, accepted are 0 (visible) and {least:g} or -inf (hidden)")
    return visible


def _over_pages(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    pages: PagedCache,
    layer: int,
    backend: OperatorBackend,
    options: dict[str, Any],
) -> torch.Tensor:
    """Stores the new keys, then attends to all."""
    pages.write(layer, k, v)
    stored = (pages.k_pages[layer], pages.v_pages[layer])
    out: torch.Tensor
    if q.shape[1] <= MAX_DECODE_QO_LEN:
        out = paged_decode(q, *stored, pages.page_table, pages.kv_lens, backend=backend, **options)
    else:
        out = prefill(q, *stored, page_table=pages.page_table, kv_lens=pages.kv_lens, backend=backend, **options)
    return out
