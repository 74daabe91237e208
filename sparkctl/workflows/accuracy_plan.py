"""Which calls `sparkctl accuracy` judges: named variants, the operators' own choice, or the arms of --ab."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sparkctl.arch import Arch
from sparkctl.bench.ab import Ab
from sparkctl.bench.axes import DTYPES, DecodeCase, Heads
from sparkctl.errors import UsageError
from sparkctl.ops.plan import KERNEL_PREFERENCE, family_of, is_planned
from sparkctl.ops.prefill_plan import PREFILL_KERNELS
from sparkctl.registry import Registry, Variant, select_variants
from sparkctl.testing.arms import AttentionArm, Operator
from sparkctl.testing.model_folder import ModelFacts
from sparkctl.testing.stack import StackShape
from sparkctl.workflows.bench_ab import NUM_SPLITS, REVISION, plan_arms
from sparkctl.workflows.bench_request import BenchRequest, PlannedArm, described

HEADS = Heads(8, 2)
AB_SPLITS = 4  # of every arm that --ab compares, unless it varies them: other splits are other sums
AB_KV_LEN = 2048  # past what the planner asks for before it takes fa_split_gqa
PAGE_SIZE = 16
OPERATORS: tuple[Operator, ...] = ("decode", "paged_decode", "prefill")


@dataclass(frozen=True, slots=True)
class AccuracyRequest:
    """What was asked for. Without patterns the operators choose: one decode, one paged decode, one prefill each."""

    patterns: tuple[str, ...] = ()
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)  # axes other than dtype and head_dim
    head_dim: int = 128
    dtype: str = "bf16"
    profile: str = "release"
    sets: Mapping[str, str] = field(default_factory=dict)  # flags that the build reads
    flags: Mapping[str, str] = field(default_factory=dict)  # flags that are read at each call
    ab: Ab | None = None
    seed: int = 0
    layers: int = 4
    prompt: int = 192
    steps: int = 48
    model: ModelFacts | None = None  # whose answers are judged in place of the stack's

    @property
    def stack(self) -> StackShape:
        return StackShape(
            layers=self.layers,
            num_qo_heads=HEADS.num_qo_heads,
            num_kv_heads=HEADS.num_kv_heads,
            head_dim=self.head_dim,
            prompt=self.prompt,
            steps=self.steps,
        )


@dataclass(frozen=True, slots=True)
class AccuracyPlan:
    """The arms in groups: bits are compared within a group where --ab made it, with its first arm."""

    groups: tuple[tuple[AttentionArm, ...], ...]
    variants: tuple[Variant, ...]


def sizes_of(registry: Registry, patterns: Sequence[str]) -> tuple[int, str]:
    """(head_dim, dtype) of a run that names none: 128 and bf16, or what all that was asked for by name has."""
    values = [dict(variant.values) for variant in select_variants(registry, patterns)]
    head_dims = {int(value["head_dim"]) for value in values if "head_dim" in value}
    dtypes = {str(value["dtype"]) for value in values if "dtype" in value}
    head_dim = head_dims.pop() if len(head_dims) == 1 else 128
    return head_dim, dtypes.pop() if len(dtypes) == 1 else "bf16"


def of_model(request: AccuracyRequest, facts: ModelFacts, dtype: str | None) -> AccuracyRequest:
    """The request at the model's own sizes; `dtype` rounds its weights.

    UsageError for weights that no kernel takes as they are, and for more positions than the model has.
    """
    where, kind = f"--model {facts.folder}", dtype or facts.dtype
    if kind not in DTYPES:
        raise UsageError(
            f"{where}: its weights are {facts.dtype}, the kernels take {' and '.join(DTYPES)}",
            hint="--dtype bf16 rounds them",
        )
    positions = request.prompt + request.steps
    if facts.max_positions is not None and positions > facts.max_positions:
        raise UsageError(
            f"{where}: {request.prompt} + {request.steps} positions, it has {facts.max_positions}",
            hint="fewer by --prompt and --steps",
        )
    return replace(request, head_dim=facts.head_dim, dtype=kind, model=facts)


def plan_accuracy(registry: Registry, request: AccuracyRequest, arch: Arch) -> AccuracyPlan:
    """UsageError where nothing that was asked for is an attention kernel of these sizes."""
    shape = {"dtype": [request.dtype], "head_dim": [str(request.head_dim)]}
    known = [kernel for kernel in registry.kernels.values() if kernel.name in _judged()]
    patterns = request.patterns or tuple(kernel.name for kernel in known)
    chosen = select_variants(registry, patterns, arch=arch, where={**request.where, **shape})
    own = [variant for variant in chosen if variant.kernel.name in _judged()]
    if not own:
        names = ", ".join(dict.fromkeys(variant.kernel.name for variant in chosen))
        raise UsageError(
            f"accuracy has nothing to ask of {names}", hint="it judges " + ", ".join(kernel.name for kernel in known)
        )
    if request.ab is not None:
        groups, variants = _compared(registry, request, request.ab, own)
        return AccuracyPlan(tuple(groups), tuple({variant.name: variant for variant in variants}.values()))
    if request.patterns or request.where:
        return AccuracyPlan(tuple((_arm_of(variant, request),) for variant in own), tuple(own))
    planned = [variant for variant in own if is_planned(described(variant))]
    served = dict.fromkeys(_operator_of(variant) for variant in planned)
    arms = [AttentionArm(f"{o} as it chooses", o, o == "paged_decode", flags=request.flags) for o in served]
    return AccuracyPlan(tuple((arm,) for arm in arms), tuple(planned))


def _judged() -> set[str]:
    return {*PREFILL_KERNELS, *(name for kernels in KERNEL_PREFERENCE.values() for name in kernels)}


def _operator_of(variant: Variant) -> Operator:
    family = family_of(described(variant))
    return next(operator for operator in OPERATORS if operator == family)


def _is_paged(variant: Variant) -> bool:
    return _operator_of(variant) == "paged_decode" or bool(dict(variant.values).get("paged", 0))


def _arm_of(variant: Variant, request: AccuracyRequest) -> AttentionArm:
    return AttentionArm(variant.name, _operator_of(variant), _is_paged(variant), variant=variant.name)


def _compared(
    registry: Registry, request: AccuracyRequest, ab: Ab, own: Sequence[Variant]
) -> tuple[list[tuple[AttentionArm, ...]], list[Variant]]:
    """For each kernel, and each kind of K and V that it takes, its arms."""
    groups, needed = [], list[Variant]()
    decodes = [variant for variant in own if _operator_of(variant) != "prefill"]
    if not decodes:
        raise UsageError(f"--ab {ab.name}: it compares decode kernels", hint="name prefill's variants without --ab")
    for operator in ("decode", "paged_decode"):
        among = [variant for variant in decodes if _operator_of(variant) == operator]
        if not among:
            continue
        case = _case(request, operator)
        bench = BenchRequest((case,), request.patterns or (among[0].kernel.name,), request.where, flags=request.flags)
        for plan in plan_arms(registry, bench, ab, case, among):
            groups.append(tuple(_arm_from(arm, operator, ab) for arm in plan.arms))
            needed += plan.variants
    return groups, needed


def _case(request: AccuracyRequest, operator: str) -> DecodeCase:
    case = DecodeCase(2, AB_KV_LEN, HEADS, request.head_dim, request.dtype)
    return replace(case, page_size=PAGE_SIZE) if operator == "paged_decode" else case


def _arm_from(arm: PlannedArm, operator: Operator, ab: Ab) -> AttentionArm:
    name = arm.variant or arm.kernel
    if ab.name != REVISION:
        name = name.partition(".")[0]
    paged = operator == "paged_decode"
    return AttentionArm(
        f"{name}{', pages' if paged else ''}, {arm.label}",
        operator,
        paged,
        kernel="auto" if arm.variant else arm.kernel,
        variant=arm.variant,
        num_splits=arm.num_splits if ab.name == NUM_SPLITS else AB_SPLITS,
        flags=arm.flags,
        library=arm.label if ab.name == REVISION else "",
    )
