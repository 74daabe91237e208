"""A prefill case made ready on a device: its inputs, the call of the kernel, and what must come out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparkctl.registry.model import Variant
from sparkctl.testing.guard import Guarded, Outputs, guarded, guarded_output
from sparkctl.testing.model import PrefillCase
from sparkctl.testing.prefill_inputs import PaddedSequences, make_prefill_inputs, sequences_of
from sparkctl.testing.prepare import Prepared, Target
from sparkctl.testing.reference import attention_reference, plain_emulation

if TYPE_CHECKING:
    from torch import Tensor

    from sparkctl.ops.prefill_inputs import PrefillInputs

LARGE_WORK = 1 << 26  # scores of a sequence from which the reference goes head by head, to bound its memory


def prepare_prefill(target: Target, variant: Variant, case: PrefillCase) -> Prepared:
    """A prefill case. Without lse it goes through the public operator; with lse, which the operator allocates itself
    and so could not be poisoned, the same planned call is run directly.
    """
    dtype, head_dim = str(variant.value("dtype")), int(variant.value("head_dim"))
    inputs, padded = make_prefill_inputs(case, dtype, head_dim, target.device, target.seed)
    expected_out, expected_lse, plain_out = expected_outputs(case, padded)

    def call() -> Outputs:
        shape = tuple(expected_out.shape)
        out = guarded_output(shape, dtype, case.layout, target.device)
        lse = guarded(shape[:-1], expected_out.new_empty(0).float().dtype, target.device) if case.return_lse else None
        run = run_planned_call if case.return_lse else run_operator
        run(target, variant, case, inputs, padded, out, lse)
        return Outputs(out, lse)

    launches = 1 if expected_out.numel() else 0
    return Prepared(call, launches, dtype, expected_out, expected_lse, plain_out)


def expected_outputs(case: PrefillCase, padded: PaddedSequences) -> tuple[Tensor, Tensor, Tensor]:
    """(out, lse, plain emulation); packed queries stand one behind the other in a batch of one."""
    import torch

    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    options: dict[str, Any] = {"causal": case.causal, "window": case.window, "softcap": case.softcap}
    for q, k, v, mask in sequences_of(case, padded):
        heads = case.num_kv_heads if q.shape[1] * k.shape[1] * case.num_qo_heads > LARGE_WORK else 1
        by_head = zip(
            q.chunk(heads, 2),
            k.chunk(heads, 2),
            v.chunk(heads, 2),
            mask.chunk(heads, 1) if mask is not None and mask.dim() == 4 and mask.shape[1] > 1 else [mask] * heads,
            padded.sinks.chunk(heads) if padded.sinks is not None else [None] * heads,
            strict=True,
        )
        results = [
            (
                *attention_reference(q1, k1, v1, mask=mask1, sinks=sinks1, **options),
                plain_emulation(q1, k1, v1, mask=mask1, sinks=sinks1, **options),
            )
            for q1, k1, v1, mask1, sinks1 in by_head
        ]
        out, lse, plain = (torch.cat(pieces, 2) for pieces in zip(*results, strict=True))
        parts.append((out, lse, plain))
    out, lse, plain = (torch.cat(pieces, 1 if case.packed_q else 0) for pieces in zip(*parts, strict=True))
    return out, lse, plain


def run_operator(
    target: Target,
    variant: Variant,
    case: PrefillCase,
    inputs: PrefillInputs,
    padded: PaddedSequences,
    out: Guarded,
    lse: Guarded | None,
) -> None:
    from sparkctl import ops

    assert lse is None
    ops.prefill(
        inputs.q,
        inputs.k,
        inputs.v,
        page_table=inputs.page_table,
        kv_lens=inputs.kv_lens,
        qo_indptr=inputs.qo_indptr,
        kv_indptr=inputs.kv_indptr,
        max_qo_len=case.qo_len,
        causal=case.causal,
        window=case.window,
        softcap=case.softcap,
        sinks=padded.sinks,
        mask=padded.mask,
        out=out.view[0] if case.packed_q else out.view,
        variant=variant.name,
        library=target.library,
    )


def run_planned_call(
    target: Target,
    variant: Variant,
    case: PrefillCase,
    inputs: PrefillInputs,
    padded: PaddedSequences,
    out: Guarded,
    lse: Guarded | None,
) -> None:
    from sparkctl import ops
    from sparkctl.ops.options import check_options
    from sparkctl.ops.prefill_inputs import check_inputs

    assert lse is not None
    shape = check_inputs(inputs, case.qo_len, None)
    call = ops.plan_prefill_call(target.library, shape, variant=variant.name)
    if call is None:
        raise ValueError(f"{variant.name} does not accept the case")
    options = check_options(
        inputs.q,
        (case.batch, case.num_qo_heads, case.qo_len, case.kv_capacity),
        scale=None,
        causal=case.causal,
        window=case.window,
        softcap=case.softcap,
        mask=padded.mask,
        sinks=padded.sinks,
    )
    views = (out.view[0], lse.view[0]) if case.packed_q else (out.view, lse.view)
    call.run(inputs.arguments(), case.qo_len, views, options)
