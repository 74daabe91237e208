"""A case made ready on a device: its inputs, the call of the kernel, and what must come out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparkctl.registry.model import Variant
from sparkctl.testing.guard import Outputs, guarded, guarded_output, guarded_partials, unguarded
from sparkctl.testing.inputs import DecodeInputs, make_decode_inputs, make_partials, make_states, torch_dtype
from sparkctl.testing.model import CombineCase, DecodeCase, MergeCase
from sparkctl.testing.reference import attention_reference, combine_reference, merge_reference, plain_emulation

if TYPE_CHECKING:
    from torch import Tensor

    from sparkctl.runtime import Library


@dataclass(frozen=True, slots=True)
class Target:
    """Where cases run: the library, the torch device of its tensors, and how."""

    library: Library
    device: str  # "cpu" for the emulator, "cuda:0"
    seed: int = 0
    repeat: int = 1


@dataclass(frozen=True, slots=True)
class Prepared:
    """One attention call. `call` poisons fresh outputs, runs the kernel into them and returns them."""

    call: Callable[[], Outputs]
    launches: int  # kernels that the call must launch
    dtype: str
    expected_out: Tensor  # fp64 [batch, qo_len, num_qo_heads, head_dim]
    expected_lse: Tensor  # fp64 [batch, qo_len, num_qo_heads]
    plain_out: Tensor


def prepare_decode(target: Target, variant: Variant, case: DecodeCase) -> Prepared:
    """A decode case. Without lse it goes through the public operator; with lse, which the operator allocates itself
    and so could not be poisoned, the same planned call is run directly.
    """
    dtype, head_dim = str(variant.value("dtype")), int(variant.value("head_dim"))
    inputs = make_decode_inputs(case, dtype, head_dim, target.device, target.seed)
    q, k, v, kv_lens = inputs.q, inputs.k, inputs.v, inputs.kv_lens
    options = options_of(case, inputs)
    expected_out, expected_lse = attention_reference(q, k, v, kv_lens=kv_lens, **options)
    plain_out = plain_emulation(q, k, v, kv_lens=kv_lens, **options)
    run = run_planned_call if case.return_lse else run_operator
    return Prepared(lambda: run(target, variant, case, inputs, dtype), 2, dtype, expected_out, expected_lse, plain_out)


def options_of(case: DecodeCase, inputs: DecodeInputs) -> dict[str, Any]:
    """What the operator and the reference are told beside the tensors."""
    return {
        "causal": case.causal,
        "window": case.window,
        "softcap": case.softcap,
        "mask": inputs.mask,
        "sinks": inputs.sinks,
    }


def run_operator(target: Target, variant: Variant, case: DecodeCase, inputs: DecodeInputs, dtype: str) -> Outputs:
    from sparkctl import ops

    out = guarded_output(tuple(inputs.q.shape), dtype, case.layout, target.device)
    options = options_of(case, inputs) | {
        "num_splits": case.num_splits,
        "out": out.view,
        "variant": variant.name,
        "library": target.library,
    }
    if inputs.pages is None:
        ops.decode(inputs.q, inputs.k, inputs.v, kv_lens=inputs.kv_lens, **options)
    else:
        assert inputs.kv_lens is not None
        ops.paged_decode(inputs.q, inputs.pages.k, inputs.pages.v, inputs.pages.table, inputs.kv_lens, **options)
    return Outputs(out, None)


def run_planned_call(target: Target, variant: Variant, case: DecodeCase, inputs: DecodeInputs, dtype: str) -> Outputs:
    from sparkctl import ops
    from sparkctl.ops.options import check_options, visible_length
    from sparkctl.ops.plan import operator_for

    head_dim = inputs.q.shape[3]
    shape = ops.DecodeShape(
        batch=case.batch,
        qo_len=case.qo_len,
        num_qo_heads=case.num_qo_heads,
        num_kv_heads=case.num_kv_heads,
        head_dim=head_dim,
        kv_len=visible_length(case.kv_capacity, case.qo_len, case.window),
        dtype=dtype,
        page_size=case.page_size,
    )
    call = ops.plan_call(
        target.library, shape, family=operator_for(shape), variant=variant.name, num_splits=case.num_splits
    )
    if call is None:
        raise ValueError(f"{variant.name} does not accept the case")
    rows = (case.batch, case.qo_len, case.num_qo_heads)
    outputs = Outputs(
        out=guarded_output((*rows, head_dim), dtype, case.layout, target.device),
        lse=guarded(rows, inputs.q.new_empty(0).float().dtype, target.device),
        partials=guarded_partials((*rows, call.plan.num_splits), head_dim, target.device),
    )
    assert outputs.lse is not None
    workspace = ops.Workspace(*(part.view for part in outputs.partials))
    mask_shape = (case.batch, case.num_qo_heads, case.qo_len, case.kv_capacity)
    options = check_options(inputs.q, mask_shape, scale=None, **options_of(case, inputs))
    call.run(kernel_inputs(inputs), (outputs.out.view, outputs.lse.view), workspace, options)
    return outputs


def kernel_inputs(inputs: DecodeInputs) -> tuple[Tensor | None, ...]:
    """The inputs in the order of the family's entry point."""
    if inputs.pages is None:
        return (inputs.q, inputs.k, inputs.v, inputs.kv_lens)
    return (inputs.q, inputs.pages.k, inputs.pages.v, inputs.pages.table, inputs.kv_lens)


def prepare_combine(target: Target, variant: Variant, case: CombineCase) -> Prepared:
    """A combine case; the kernel's entry is called directly, so that out and lse can be poisoned."""
    dtype, head_dim = str(variant.value("dtype")), int(variant.value("head_dim"))
    partials = make_partials(case, head_dim, target.device, target.seed)
    expected_out, expected_lse = combine_reference(partials.acc, partials.max, partials.sum, partials.sinks)
    rows = (case.batch, case.qo_len, case.num_qo_heads)
    library = target.library

    def call() -> Outputs:
        out = guarded_output((*rows, head_dim), dtype, "padded" if case.padded_out else "contiguous", target.device)
        lse = guarded(rows, partials.max.dtype, target.device)
        index = library.index[library.variant(variant.name).name]
        library.function("combine")(index, partials.acc, partials.max, partials.sum, out.view, lse.view, partials.sinks)
        return Outputs(out, lse)

    plain_out = expected_out.to(torch_dtype(dtype))
    return Prepared(call, 1, dtype, expected_out, expected_lse, plain_out)


def prepare_merge(target: Target, variant: Variant, case: MergeCase) -> Prepared:
    """A merge of states; the kernel's entry is called directly, so that out and lse can be poisoned, or the first state
    be given as both."""
    dtype, head_dim = str(variant.value("dtype")), int(variant.value("head_dim"))
    states = make_states(case, dtype, head_dim, target.device, target.seed)
    expected_out, expected_lse = merge_reference(states.out, states.lse)
    rows = (case.batch, case.qo_len, case.num_qo_heads)
    library = target.library

    def call() -> Outputs:
        index = library.index[library.variant(variant.name).name]
        enter = library.function("merge_states")
        if case.in_place:
            fresh = make_states(case, dtype, head_dim, target.device, target.seed)
            enter(index, fresh.out, fresh.lse, fresh.out[0], fresh.lse[0])
            return Outputs(unguarded(fresh.out[0]), unguarded(fresh.lse[0]))
        layout = "contiguous" if case.layout == "states_inside" else case.layout
        out = guarded_output((*rows, head_dim), dtype, layout, target.device)
        lse = guarded(rows, states.lse.dtype, target.device)
        enter(index, states.out, states.lse, out.view, lse.view)
        return Outputs(out, lse)

    plain_out = expected_out.to(torch_dtype(dtype))
    return Prepared(call, 1, dtype, expected_out, expected_lse, plain_out)
