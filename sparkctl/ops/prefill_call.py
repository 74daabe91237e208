"""From a prefill shape to a planned call; None where plain torch runs."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkctl.ops.call import OperatorBackend, choose_library, no_variant, refuse_or_say, variant_ranges
from sparkctl.ops.flags import check_names
from sparkctl.ops.options import AttentionOptions
from sparkctl.ops.plan import accepted
from sparkctl.ops.plan_cache import remembered
from sparkctl.ops.prefill_plan import (
    MMA_KERNEL,
    PREFILL_KERNELS,
    PrefillPlan,
    PrefillShape,
    choose_prefill,
    is_prefill,
    plan_prefill,
    serves_prefill,
)
from sparkctl.runtime import BuiltVariant, Library

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class PrefillCall:
    """A planned call: what to run, from which library."""

    library: Library
    plan: PrefillPlan

    def run(
        self,
        inputs: Sequence[torch.Tensor | None],
        max_qo_len: int,
        outputs: tuple[torch.Tensor, torch.Tensor | None],
        options: AttentionOptions,
    ) -> None:
        """Launch on the current stream: (q, k, v, page_table, kv_lens, qo_indptr, kv_indptr), then (out, lse).

        C++ checks every tensor.
        """
        variant = self.library.index[self.plan.variant]
        self.library.function("prefill")(variant, *inputs, max_qo_len, *outputs, *options.arguments())


def plan_prefill_call(
    library: Library, shape: PrefillShape, *, kernel: str = "auto", variant: str | None = None
) -> PrefillCall | None:
    """The call for a shape on a library; None when the library has no variant that accepts it.

    Raises ValueError when a forced variant does not accept the shape, or is not one of a forced kernel.
    """
    if kernel not in ("auto", *PREFILL_KERNELS):
        raise ValueError(f"kernel is {kernel!r}, accepted are auto, {', '.join(PREFILL_KERNELS)}")
    if variant is None:
        chosen = choose_prefill(library.manifest.variants, shape, kernel=kernel)
        if chosen is None:
            return None
        reason = "kernel as given" if kernel != "auto" else _reason(chosen)
    else:
        chosen = _forced_variant(library, shape, kernel, variant)
        reason = "variant as given"
    return PrefillCall(library, plan_prefill(shape, chosen, reason))


def _reason(chosen: BuiltVariant) -> str:
    return "tensor cores" if chosen.kernel == MMA_KERNEL else f"no variant of {MMA_KERNEL} is built that accepts it"


def _forced_variant(library: Library, shape: PrefillShape, kernel: str, variant: str) -> BuiltVariant:
    chosen = library.variant(variant)
    if not is_prefill(chosen):
        raise ValueError(f"variant is {variant}, of family {chosen.family}, accepted is one of family prefill")
    if kernel not in ("auto", chosen.kernel):
        raise ValueError(f"variant is {variant}, which is not a variant of the kernel {kernel} that is asked for")
    if not serves_prefill(chosen, shape.page_size):
        kind = "pages" if chosen.values["paged"] else "contiguous or packed k and v"
        raise ValueError(f"variant is {variant}, which takes {kind}, not what the call has")
    if not accepted(chosen, shape):
        raise ValueError(f"variant {variant} does not accept {shape}; it accepts {variant_ranges(chosen)}")
    return chosen


def _plan_in_environment(library: Library, shape: PrefillShape, kernel: str, variant: str | None) -> PrefillCall | None:
    check_names(library.manifest, os.environ)  # no flag reaches prefill, but a misspelled one is told
    return plan_prefill_call(library, shape, kernel=kernel, variant=variant)


def choose_prefill_call(
    q: torch.Tensor,
    shape: PrefillShape,
    kernel: str,
    variant: str | None,
    backend: OperatorBackend,
    library: Library | None,
) -> PrefillCall | None:
    """The call that the operator makes for its arguments; None where plain torch runs.

    Raises ValueError when a forced choice does not accept the call, MissingTool when no library is built.
    """
    of_a_library = kernel != "auto" or variant is not None
    forced = of_a_library or library is not None or backend in ("cuda", "emulator")
    library = choose_library("q", q, backend, library, forced=of_a_library)
    if library is None:
        return None
    plan = functools.partial(_plan_in_environment, library, shape, kernel, variant)
    call = remembered(library, (shape, kernel, variant), os.environ, plan)
    if call is None:
        candidates = [
            v
            for v in library.manifest.variants
            if v.kernel in PREFILL_KERNELS and kernel in ("auto", v.kernel) and serves_prefill(v, shape.page_size)
        ]
        refuse_or_say(no_variant(candidates, shape, "prefill"), "prefill", forced)
    return call
