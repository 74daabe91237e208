"""A case made ready on a device: its inputs, the call of the operator, and what must come out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkctl.registry.model import Variant
from sparkctl.testing.inputs import GuardedOutput, make_decode_inputs, make_partials
from sparkctl.testing.model import CombineCase, DecodeCase, Layout
from sparkctl.testing.reference import attention_reference, combine_reference, plain_emulation

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
    """One attention call. `call` runs the kernel into the output it is given and returns lse."""

    call: Callable[[GuardedOutput], Tensor | None]
    launches: int  # kernels that the call must launch
    dtype: str
    layout: Layout  # of the output
    expected_out: Tensor  # fp64 [batch, qo_len, num_qo_heads, head_dim]
    expected_lse: Tensor  # fp64 [batch, qo_len, num_qo_heads]
    plain_out: Tensor


def prepare_decode(target: Target, variant: Variant, case: DecodeCase) -> Prepared:
    from sparkctl import ops

    dtype, head_dim = str(variant.value("dtype")), int(variant.value("head_dim"))
    inputs = make_decode_inputs(case, dtype, head_dim, target.device, target.seed)
    q, k, v, kv_lens = inputs.q, inputs.k, inputs.v, inputs.kv_lens
    expected_out, expected_lse = attention_reference(q, k, v, kv_lens=kv_lens, causal=case.causal)
    plain_out = plain_emulation(q, k, v, kv_lens=kv_lens, causal=case.causal)

    def call(output: GuardedOutput) -> Tensor | None:
        result = ops.decode(
            q,
            k,
            v,
            kv_lens=kv_lens,
            causal=case.causal,
            num_splits=case.num_splits,
            out=output.view,
            return_lse=case.return_lse,
            variant=variant.name,
            library=target.library,
        )
        return result[1] if case.return_lse else None

    return Prepared(call, 2, dtype, case.layout, expected_out, expected_lse, plain_out)


def prepare_combine(target: Target, variant: Variant, case: CombineCase) -> Prepared:
    from sparkctl import ops
    from sparkctl.testing.inputs import torch_dtype

    dtype, head_dim = str(variant.value("dtype")), int(variant.value("head_dim"))
    partials = make_partials(case, head_dim, target.device, target.seed)
    expected_out, expected_lse = combine_reference(partials.acc, partials.max, partials.sum)

    def call(output: GuardedOutput) -> Tensor | None:
        _, lse = ops.combine(
            partials.acc,
            partials.max,
            partials.sum,
            dtype=torch_dtype(dtype),
            out=output.view,
            variant=variant.name,
            library=target.library,
        )
        return lse

    layout: Layout = "padded" if case.padded_out else "contiguous"
    plain_out = expected_out.to(torch_dtype(dtype))
    return Prepared(call, 1, dtype, layout, expected_out, expected_lse, plain_out)
