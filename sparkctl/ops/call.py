"""From a shape to a planned call: which library, which variant, how many splits; None where plain torch runs."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from sparkctl.errors import SparkctlError
from sparkctl.ops.choices import check_library, check_workspace
from sparkctl.ops.devices import EMULATED_SM_COUNT, default_library, sm_count
from sparkctl.ops.fallback import say_once
from sparkctl.ops.flags import FlagSettings, FlagValue, allowed_by_flags, describe_flags, runtime_flags
from sparkctl.ops.options import AttentionOptions
from sparkctl.ops.plan import (
    KERNEL_PREFERENCE,
    AttentionShape,
    DecodePlan,
    DecodeShape,
    accepted,
    choice_reason,
    choose_variant,
    family_of,
    plan_decode,
    serves,
)
from sparkctl.ops.plan_cache import remembered
from sparkctl.ops.workspace import Workspace, allocate_workspace
from sparkctl.runtime import BuiltVariant, Library

if TYPE_CHECKING:
    import torch

PLAIN_TORCH = "torch: plain torch operators"
OperatorBackend = Literal["auto", "cuda", "emulator", "torch"]


@dataclass(frozen=True, slots=True)
class DecodeCall:
    """A planned call: what to run, from which library."""

    library: Library
    plan: DecodePlan

    def run(
        self,
        inputs: Sequence[torch.Tensor | None],
        outputs: tuple[torch.Tensor, torch.Tensor | None],
        workspace: Workspace,
        options: AttentionOptions,
    ) -> None:
        """Launch on the current stream: the family's inputs (q, k, v, …), then (out, lse). C++ checks every tensor."""
        enter = self.library.function(self.plan.family)
        variant, combine = (self.library.index[name] for name in (self.plan.variant, self.plan.combine_variant))
        partials = (workspace.part_acc, workspace.part_max, workspace.part_sum)
        enter(variant, combine, *inputs, *outputs, *partials, *options.arguments())


def run_call(
    call: DecodeCall,
    inputs: Sequence[torch.Tensor | None],
    out: torch.Tensor | None,
    lse: torch.Tensor | None,
    return_lse: bool,
    workspace: Workspace | None,
    options: AttentionOptions,
) -> Any:
    """Allocate what the caller did not give, launch, return out or (out, lse). inputs[0] is q."""
    import torch

    q = inputs[0]
    assert q is not None  # every family begins with it
    if out is None:
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if lse is None and return_lse:
        lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    call.run(inputs, (out, lse), workspace or allocate_workspace(q, call.plan.num_splits), options)
    return out if lse is None else (out, lse)


def hand_over(
    result: torch.Tensor,
    result_lse: torch.Tensor,
    out: torch.Tensor | None,
    return_lse: bool,
    lse: torch.Tensor | None = None,
) -> Any:
    """Plain torch's results as the caller asked for them: in `out` and `lse` where they are given."""
    if out is not None:
        result = out.copy_(result)
    if lse is not None:
        result_lse = lse.copy_(result_lse)
    return (result, result_lse) if return_lse or lse is not None else result


def plan_call(
    library: Library,
    shape: DecodeShape,
    *,
    family: str = "decode",
    kernel: str = "auto",
    variant: str | None = None,
    num_splits: int | None = None,
    device_sm_count: int = EMULATED_SM_COUNT,
    flags: Mapping[str, FlagValue] | None = None,
    environ: Mapping[str, str] | None = None,
) -> DecodeCall | None:
    """The call for a shape on a library; None when the library has no variant that accepts it.

    Run-time flags come from `flags`, then from `environ` (the process' own if None), then from the library; a forced
    variant needs none. Raises ValueError when a forced variant does not accept the shape, or is not one of a forced
    kernel, or when no variant is left by the flags.
    """
    settings = runtime_flags(library.manifest, os.environ if environ is None else environ, flags)
    if kernel not in ("auto", *KERNEL_PREFERENCE[family]):
        raise ValueError(f"kernel is {kernel!r}, accepted are auto, {', '.join(KERNEL_PREFERENCE[family])}")
    if variant is None:
        chosen = _choose_by_flags(library, shape, family, kernel, settings)
    else:
        chosen = library.variant(variant)
        if not serves(chosen, family):
            raise ValueError(f"variant is {variant}, of family {family_of(chosen)}, accepted is one of family {family}")
        if kernel not in ("auto", chosen.kernel):
            raise ValueError(f"variant is {variant}, which is not a variant of the kernel {kernel} that is asked for")
        if not accepted(chosen, shape):
            raise ValueError(f"variant {variant} does not accept {shape}; it accepts {variant_ranges(chosen)}")
    if chosen is None:
        return None
    combine = combine_variant(library, shape.dtype, shape.head_dim)
    plan = plan_decode(shape, chosen, combine, sm_count=device_sm_count, num_splits=num_splits)
    if variant is None:
        why = choice_reason(chosen, shape, family) if kernel == "auto" else ""
        reason = "; ".join(filter(None, (plan.reason, why))) + describe_flags(chosen.kernel, settings)
        plan = replace(plan, reason=reason)
    return DecodeCall(library, plan)


def _choose_by_flags(
    library: Library, shape: DecodeShape, family: str, kernel: str, settings: FlagSettings
) -> BuiltVariant | None:
    variants = library.manifest.variants
    chosen = choose_variant(allowed_by_flags(variants, settings), shape, family=family, kernel=kernel)
    if chosen is not None:
        return chosen
    without = choose_variant(variants, shape, family=family, kernel=kernel)
    if without is not None:
        given = describe_flags(without.kernel, settings).removeprefix("; ")
        raise ValueError(f"{given}: no built variant of {without.kernel} has it; sparkctl build {without.kernel}")
    return None


def combine_variant(library: Library, dtype: str, head_dim: int) -> str:
    """The name of the combine variant for a dtype and head_dim; SparkctlError with what is built if there is none."""
    return merging_variant(library, "attn_combine", dtype, head_dim)


def merging_variant(library: Library, kernel: str, dtype: str, head_dim: int) -> str:
    """The variant of attn_combine or attn_merge_states for a dtype and head_dim; SparkctlError if none is built."""
    built = [variant for variant in library.manifest.variants if variant.kernel == kernel]
    for variant in built:
        if (variant.values["dtype"], variant.values["head_dim"]) == (dtype, head_dim):
            return variant.name
    dims = ", ".join(map(str, sorted({int(v.values["head_dim"]) for v in built if v.values["dtype"] == dtype})))
    raise SparkctlError(
        f"no {kernel} is built for dtype {dtype} and head_dim {head_dim}; built for {dtype} are {dims or 'none'}",
        hint=f"sparkctl build {kernel} --arch {library.manifest.arch} --backend {library.manifest.backend}",
    )


def choose_library(
    name: str, tensor: torch.Tensor, backend: OperatorBackend, library: Library | None, *, forced: bool = False
) -> Library | None:
    """The library for a tensor (called `name` in errors); None where plain torch runs.

    `forced`: the call asks for a kernel of a library, so the CPU's is the emulator's. Raises ValueError for a backend
    that the tensor's device does not have, MissingTool when no library is built.
    """
    check_library(library)
    if not isinstance(backend, str) or backend not in get_args(OperatorBackend):
        raise ValueError(f"backend is {backend!r}, accepted are {', '.join(get_args(OperatorBackend))}")
    if backend == "torch" and (forced or library is not None):
        raise ValueError("backend is 'torch', which accepts no kernel, variant, library or flags")
    forced = forced or library is not None or backend in ("cuda", "emulator")
    if backend == "torch" or (not forced and tensor.device.type != "cuda"):
        return None
    if tensor.device.type not in ("cuda", "cpu"):
        raise ValueError(f"{name} is on {tensor.device}, accepted are CUDA devices and the CPU")
    wanted = "cuda" if tensor.device.type == "cuda" else "emulator"
    if backend in ("cuda", "emulator") and backend != wanted:
        raise ValueError(f"{name} is on {tensor.device}, which backend '{backend}' does not accept")
    return library if library is not None else default_library(str(tensor.device))


def choose_call(
    q: torch.Tensor,
    shape: DecodeShape,
    family: str,
    kernel: str,
    variant: str | None,
    backend: OperatorBackend,
    library: Library | None,
    num_splits: int | None,
    workspace: Workspace | None,
    flags: Mapping[str, FlagValue] | None = None,
) -> DecodeCall | None:
    """The call that an operator makes for its arguments; None where plain torch runs.

    Raises ValueError when a forced choice does not accept the call, MissingTool when no library is built.
    """
    if backend == "torch" and flags:
        raise ValueError("backend is 'torch', which accepts no kernel, variant, library or flags")
    if workspace is not None:
        check_workspace(workspace, q)
        if num_splits is not None and num_splits != workspace.num_splits:
            raise ValueError(f"num_splits is {num_splits}, accepted is the workspace's: {workspace.num_splits}")
        num_splits = workspace.num_splits
    forced = backend in ("cuda", "emulator") or library is not None or variant is not None or kernel != "auto"
    library = choose_library("q", q, backend, library, forced=variant is not None or kernel != "auto")
    if library is None:
        return None
    plan = functools.partial(
        plan_call,
        library,
        shape,
        family=family,
        kernel=kernel,
        variant=variant,
        num_splits=num_splits,
        device_sm_count=sm_count(str(q.device)),
    )
    request = (shape, family, kernel, variant, num_splits, q.device)
    call = plan(flags=flags) if flags else remembered(library, request, os.environ, plan)
    if call is not None:
        return call
    candidates = [v for v in library.manifest.variants if serves(v, family) and kernel in ("auto", v.kernel)]
    refuse_or_say(no_variant(candidates, shape, family), family, forced)
    return None


def refuse_or_say(reason: str, operator: str, forced: bool) -> None:
    """ValueError where the caller insists on a library; else one warning that plain torch runs instead."""
    if forced:
        raise ValueError(reason)
    say_once(f"sparkctl.ops.{operator} runs plain torch: {reason}")


def no_variant(candidates: Sequence[BuiltVariant], shape: AttentionShape, operator: str) -> str:
    """Why none of an operator's variants accepts a shape."""
    dims = sorted({int(v.values["head_dim"]) for v in candidates})
    if shape.head_dim not in dims:
        built = ", ".join(map(str, dims)) or f"none: no {operator} kernel is built"
        return f"head_dim is {shape.head_dim}, accepted are {built}"
    nearest = [v for v in candidates if v.values["head_dim"] == shape.head_dim and v.values["dtype"] == shape.dtype]
    ranges = variant_ranges((nearest or candidates)[0])
    return f"no variant accepts group {shape.group}, qo_len {shape.qo_len}, dtype {shape.dtype}; accepted are {ranges}"


def variant_ranges(variant: BuiltVariant) -> str:
    """What a variant is compiled for, and its ranges."""
    axes = ", ".join(f"{name} {value}" for name, value in variant.values.items())
    spans = ", ".join(f"{name} {a} to {'any' if b is None else b}" for name, (a, b) in variant.accepts.items())
    return f"{axes}, {spans}"
