"""Our own calls as arms: the decode under test and the read kernels of the ceiling, straight into the library."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparkctl.bench.ab import Bits
from sparkctl.bench.axes import DecodeCase
from sparkctl.bench.buffers import Slots, xor_words
from sparkctl.bench.call_options import PLAIN, CallOptions
from sparkctl.bench.measure import Arm
from sparkctl.errors import UsageError, WorkFailed
from sparkctl.ops.call import DecodeCall, plan_call
from sparkctl.ops.flags import FlagValue
from sparkctl.ops.options import AttentionOptions
from sparkctl.ops.plan import DecodeShape, choose_variant, serves
from sparkctl.ops.prefill_call import PrefillCall, plan_prefill_call
from sparkctl.ops.prefill_plan import PrefillShape, choose_prefill, serves_prefill
from sparkctl.ops.workspace import Workspace, allocate_workspace
from sparkctl.runtime import BuiltVariant, Library

if TYPE_CHECKING:
    import torch

KernelCall = DecodeCall | PrefillCall
READ_KERNEL = "stream_read"
BLOCKS_PER_SM = (2, 4, 8)  # grids that the read kernels are tried with; 8 × 256 threads fill an SM
LOAD_BYTES = 16


@dataclass(frozen=True, slots=True)
class DecodeArm:
    """A decode that can be timed; `workspace` is shared by all slots, as a program that decodes in a loop shares it."""

    arm: Arm
    eager: Arm  # the same call into an output of its own, so that it cannot stand in for one of `arm`
    call: KernelCall
    workspace: Workspace | None  # none where the keys are not divided
    out: Sequence[torch.Tensor]  # of `arm`, one per slot
    options: CallOptions = PLAIN
    attention: AttentionOptions | None = None  # what the call gets of them
    lse: Sequence[torch.Tensor] = ()  # of `arm`, one per slot where it is asked for

    def poison(self) -> None:
        """NaN in every output and partial result."""
        for tensor in (*self.out, *self.lse, *_partials(self.workspace)):
            tensor.fill_(float("nan"))


def shape_of(case: DecodeCase, options: CallOptions = PLAIN) -> DecodeShape:
    """The case as the planner of the operators knows it: of a window only the keys that some query sees."""
    return DecodeShape(
        batch=case.batch,
        qo_len=case.qo_len,
        num_qo_heads=case.heads.num_qo_heads,
        num_kv_heads=case.heads.num_kv_heads,
        head_dim=case.head_dim,
        kv_len=options.seen(case.kv_len, case.qo_len),
        dtype=case.dtype,
        page_size=case.page_size,
        total_kv_len=None if case.kv_lens is None else sum(options.seen(n, case.qo_len) for n in case.kv_lens),
    )


def prefill_shape(case: DecodeCase) -> PrefillShape:
    """The case as the planner of prefill knows it."""
    heads = case.heads
    kv_len = case.kv_len if case.page_size is None else case.pages * case.page_size
    return PrefillShape(
        case.batch,
        case.qo_len,
        heads.num_qo_heads,
        heads.num_kv_heads,
        case.head_dim,
        kv_len,
        case.dtype,
        case.page_size,
    )


def attention_shape(case: DecodeCase) -> DecodeShape | PrefillShape:
    """The case as the planner of its operator knows it."""
    return prefill_shape(case) if case.prefill else shape_of(case)


def serves_case(variant: BuiltVariant, case: DecodeCase) -> bool:
    """Whether the case's operator can run the variant, over the kind of K and V that the case has."""
    return serves_prefill(variant, case.page_size) if case.prefill else serves(variant, case.operator)


def choose_for(variants: Sequence[BuiltVariant], case: DecodeCase, kernel: str = "auto") -> BuiltVariant | None:
    """What the case's operator would choose among the variants; None where none accepts it."""
    if case.prefill:
        return choose_prefill(variants, prefill_shape(case), kernel=kernel)
    return choose_variant(variants, shape_of(case), family=case.operator, kernel=kernel)


def plan_case(
    library: Library,
    case: DecodeCase,
    *,
    variant: str | None,
    device_sm_count: int,
    kernel: str = "auto",
    flags: Mapping[str, FlagValue] | None = None,
    options: CallOptions = PLAIN,
) -> KernelCall:
    """What the operator would run for this case; UsageError when the library has nothing for it."""
    call: KernelCall | None
    try:
        if case.prefill:
            call = plan_prefill_call(library, prefill_shape(case), kernel=kernel, variant=variant)
        else:
            call = plan_call(
                library,
                shape_of(case, options),
                family=case.operator,
                kernel=kernel,
                variant=variant,
                num_splits=case.num_splits,
                device_sm_count=device_sm_count,
                flags=flags,
            )
    except ValueError as error:
        raise UsageError(f"{case.label}: {error}") from error
    if call is None:
        raise UsageError(
            f"{case.label}: no {'prefill' if case.prefill else 'decode'} kernel accepts it",
            hint="sparkctl list shows the axes, flags.yaml what each kernel accepts",
        )
    return call


def decode_arm(
    case: DecodeCase,
    slots: Slots,
    call: KernelCall,
    *,
    label: str | None = None,
    out: Sequence[torch.Tensor] | None = None,
    options: CallOptions = PLAIN,
) -> DecodeArm:
    """The entry point with everything looked up and allocated beforehand: a call is one call into C++.

    It is named by its variant unless there is a label, and writes to the slots' outputs unless others are given.
    """
    enter = call.library.function(case.operator)
    index = call.library.index
    workspace: Workspace | None = None
    inputs: list[tuple[Any, ...]]
    if isinstance(call, DecodeCall):
        variants = [index[call.plan.variant], index[call.plan.combine_variant]]
        workspace = allocate_workspace(slots.q[0], call.plan.num_splits)
        inputs = [slots.inputs(slot) for slot in range(slots.count)]
    else:
        variants = [index[call.plan.variant]]
        inputs = [(*slots.packed_inputs(slot), case.qo_len) for slot in range(slots.count)]
    partials = _partials(workspace)
    attention = attention_options(case, options, slots.q[0])
    passed = attention.arguments()
    lse = [_empty_lse(q) for q in slots.q] if options.lse else []

    def run_into(out: Sequence[torch.Tensor], lse: Sequence[torch.Tensor | None]) -> Callable[[int], torch.Tensor]:
        def run(slot: int) -> torch.Tensor:
            into = out[slot]
            enter(*variants, *inputs[slot], into, lse[slot], *partials, *passed)
            return into

        return run

    out = slots.out if out is None else out
    scratch = [slots.out[0].clone()] * slots.count
    name = label or call.plan.variant
    timed = Arm(name, run_into(out, lse or [None] * slots.count))
    apart = [_empty_lse(slots.q[0])] * slots.count if options.lse else [None] * slots.count
    eager = Arm(f"{name} eager", run_into(scratch, apart))
    return DecodeArm(timed, eager, call, workspace, out, options, attention, lse)


def _partials(workspace: Workspace | None) -> tuple[torch.Tensor, ...]:
    return () if workspace is None else (workspace.part_acc, workspace.part_max, workspace.part_sum)


def attention_options(case: DecodeCase, options: CallOptions, like: torch.Tensor, seed: int = 1) -> AttentionOptions:
    """What the entry point gets; sinks are drawn from N(0,1), fp32 [num_qo_heads] on the device of `like`."""
    import torch

    sinks = None
    if options.sinks:
        generator = torch.Generator(device=like.device).manual_seed(seed)
        sinks = torch.randn(case.heads.num_qo_heads, generator=generator, dtype=torch.float32, device=like.device)
    return AttentionOptions(case.head_dim**-0.5, case.causal, options.window, options.softcap, sinks=sinks)


def _empty_lse(q: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.full(q.shape[:3], float("nan"), dtype=torch.float32, device=q.device)


def count_differences(first: Sequence[torch.Tensor], second: Sequence[torch.Tensor]) -> Bits:
    """Compares the bits of 16-bit outputs, slot by slot."""
    import torch

    differing, total, largest = 0, 0, 0.0
    for a, b in zip(first, second, strict=True):
        total += a.numel()
        count = int((a.view(torch.int16) != b.view(torch.int16)).sum())
        differing += count
        if count:
            largest = max(largest, float((a.double() - b.double()).abs().max()))
    return Bits(differing, total, largest)


def read_arms(library: Library, slots: Slots, device_sm_count: int) -> tuple[Arm, ...]:
    """Every read variant with every grid, over the slots' own memory; each returns its checksums, int32 [blocks]."""
    names = [variant.name for variant in library.manifest.variants if variant.kernel == READ_KERNEL]
    return tuple(
        _read_arm(library, slots, name, blocks_per_sm, device_sm_count)
        for name in names
        for blocks_per_sm in BLOCKS_PER_SM
    )


def _read_arm(library: Library, slots: Slots, name: str, blocks_per_sm: int, device_sm_count: int) -> Arm:
    import torch

    enter, index = library.function(READ_KERNEL), library.index[name]
    threads = library.variant(name).block_threads
    assert threads is not None
    enough = max(1, -(-slots.layout.size // (LOAD_BYTES * threads)))
    blocks = min(blocks_per_sm * device_sm_count, enough)
    checksum = torch.zeros(blocks, dtype=torch.int32, device=slots.raw[0].device)
    raw = slots.raw

    def run(slot: int) -> torch.Tensor:
        enter(index, raw[slot], checksum)
        return checksum

    return Arm(f"{name}, {blocks_per_sm} blocks per SM", run)


def check_read(arm_name: str, checksum: torch.Tensor, raw: torch.Tensor) -> None:
    """WorkFailed unless the blocks' checksums add up to that of all the memory: a ceiling must have read every byte."""
    got, expected = xor_words(checksum), xor_words(raw)
    if got != expected:
        raise WorkFailed(f"{arm_name} did not read the whole buffer: checksum {got:08x}, expected {expected:08x}")
