"""What a benchmark runs: from a request to jobs, and to the variants that the library must hold. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sparkctl.arch import Arch
from sparkctl.bench.ab import OPTIONS
from sparkctl.bench.arms import READ_KERNEL, serves_case
from sparkctl.bench.axes import DecodeCase
from sparkctl.bench.lengths import MAX_BATCH
from sparkctl.errors import UsageError
from sparkctl.ops.flags import AXIS_OF_FLAG
from sparkctl.ops.plan import KERNEL_PREFERENCE, serves
from sparkctl.ops.prefill_plan import PREFILL_KERNELS
from sparkctl.registry import Range, Registry, Variant, select_variants
from sparkctl.workflows.bench_ab import check_conflicts, plan_arms
from sparkctl.workflows.bench_request import BenchRequest, PlannedArm, described

COMBINE_KERNEL = "attn_combine"
DEFAULT_PAGE_SIZE = 16  # of a kernel that knows nothing but pages


@dataclass(frozen=True, slots=True)
class Job:
    """One case and its calls, in as many splits as `reference` is planned for, if there is one."""

    case: DecodeCase
    arms: tuple[PlannedArm, ...]
    reference: PlannedArm | None = None


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """The jobs in order, and every variant that the library must hold for them."""

    jobs: tuple[Job, ...]
    variants: tuple[Variant, ...]


def plan_bench(registry: Registry, request: BenchRequest, arch: Arch) -> BenchPlan:
    """Which variants each case runs on `arch`. UsageError when a case has none."""
    if request.ab is not None:
        check_conflicts(registry, request.ab, request)
    jobs: list[Job] = []
    needed: dict[str, Variant] = {}
    used: set[str] = set()
    cases = [job for case in request.cases for job in _cases_with_variants(registry, request, case, arch)]
    for case, variants in cases:
        check_accepted(case, variants)
        used |= {variant.kernel.name for variant in variants}
        if request.ab is not None:
            for plan in plan_arms(registry, request, request.ab, case, variants):
                jobs.append(Job(case, plan.arms, plan.reference))
                needed |= {variant.name: variant for variant in plan.variants}
        else:
            jobs.append(Job(case, _arms(request, variants)))
            needed |= {variant.name: variant for variant in variants}
        shape = {"dtype": [case.dtype], "head_dim": [str(case.head_dim)]}
        helpers = select_variants(registry, [COMBINE_KERNEL, READ_KERNEL], arch=arch, where=shape)
        needed |= {variant.name: variant for variant in helpers}
    _check_all_used(registry, request, used)
    return BenchPlan(tuple(jobs), tuple(needed.values()))


def _arms(request: BenchRequest, variants: Sequence[Variant]) -> tuple[PlannedArm, ...]:
    if request.patterns or request.where:
        return tuple(PlannedArm(variant.name) for variant in variants)
    return (PlannedArm(flags=request.flags),)


def _cases_with_variants(
    registry: Registry, request: BenchRequest, case: DecodeCase, arch: Arch
) -> list[tuple[DecodeCase, list[Variant]]]:
    """The case with the variants that take it; with pages of the default size for kernels that take nothing else."""
    patterns = request.patterns or _kernels_of(registry, case.operator)
    if case.prefill:
        return [(case, _prefill_variants(registry, request, case, arch, patterns))]
    shape = {"dtype": [case.dtype], "head_dim": [str(case.head_dim)]}
    chosen = select_variants(registry, patterns, arch=arch, where={**request.where, **shape})
    by_operator = {
        operator: [variant for variant in chosen if serves(described(variant), operator)]
        for operator in ("decode", "paged_decode")
    }
    if not any(by_operator.values()):
        names = ", ".join(dict.fromkeys(variant.kernel.name for variant in chosen))
        known = [*_kernels_of(registry, "decode"), *_kernels_of(registry, "paged_decode")]
        prefill = all(variant.kernel.name in PREFILL_KERNELS for variant in chosen)
        hint = "--prefill measures it" if prefill else "it measures " + ", ".join(dict.fromkeys(known))
        raise UsageError(f"bench has no cases for {names}", hint=hint)
    takes_contiguous = {variant.kernel.name for variant in by_operator["decode"]}
    pages_only = [variant for variant in by_operator["paged_decode"] if variant.kernel.name not in takes_contiguous]
    found = [(case, by_operator[case.operator])]
    if not request.pages_given and case.page_size is None:
        found.append((replace(case, page_size=DEFAULT_PAGE_SIZE), pages_only))
    elif not by_operator[case.operator]:
        raise _wrong_keys(registry, request, chosen, paged=case.page_size is not None)
    return [(case, _heeding_flags(registry, request, variants)) for case, variants in found if variants]


def _prefill_variants(
    registry: Registry, request: BenchRequest, case: DecodeCase, arch: Arch, patterns: Sequence[str]
) -> list[Variant]:
    """UsageError where none of those that were named is a prefill kernel's over such K and V."""
    shape = {"dtype": [case.dtype], "head_dim": [str(case.head_dim)]}
    chosen = select_variants(registry, patterns, arch=arch, where={**request.where, **shape})
    found = [variant for variant in chosen if serves_case(described(variant), case)]
    if not found:
        names = ", ".join(dict.fromkeys(variant.kernel.name for variant in chosen))
        known = ", ".join(_kernels_of(registry, "prefill"))
        kind = "contiguous K and V" if case.page_size is None else "pages"
        raise UsageError(f"{case.label}: {names} has no prefill over {kind}", hint=f"bench --prefill measures {known}")
    return found


def _kernels_of(registry: Registry, operator: str) -> list[str]:
    names = PREFILL_KERNELS if operator == "prefill" else KERNEL_PREFERENCE[operator]
    return [name for name in names if name in registry.kernels]


def _heeding_flags(registry: Registry, request: BenchRequest, variants: list[Variant]) -> list[Variant]:
    """Without those that a given run-time flag excludes; UsageError where that leaves nothing."""
    if request.ab is not None and request.ab.name not in (*registry.flags, OPTIONS) and request.vs is None:
        return variants  # the axis that is varied beats a flag of the environment
    left = variants
    for name, value in request.flags.items():
        axis, values = AXIS_OF_FLAG.get(name, ("", {}))
        reached = registry.flags[name].reaches
        left = [
            variant
            for variant in left
            if not reached(variant.kernel.name) or dict(variant.values).get(axis) in (None, values.get(value))
        ]
        if not left:
            kernels = ", ".join(dict.fromkeys(variant.kernel.name for variant in variants))
            raise UsageError(f"{name}={value} leaves no variant of {kernels} that was asked for")
    return left


def _check_all_used(registry: Registry, request: BenchRequest, used: set[str]) -> None:
    """UsageError for a kernel that was named and that no case reaches, since it takes the other kind of K and V."""
    for pattern in request.patterns if request.pages_given else ():
        found = select_variants(registry, [pattern])
        if not used & {variant.kernel.name for variant in found}:
            raise _wrong_keys(registry, request, found, paged=any(case.page_size is not None for case in request.cases))


def _wrong_keys(registry: Registry, request: BenchRequest, variants: Sequence[Variant], *, paged: bool) -> UsageError:
    names = ", ".join(dict.fromkeys(variant.kernel.name for variant in variants))
    takes, operator = ("contiguous K and V", "paged_decode") if paged else ("K and V in pages", "decode")
    others = ", ".join(_kernels_of(registry, operator))
    if request.by_suite:
        has = "cases in pages" if paged else "contiguous cases"
        return UsageError(f"--suite: {names} takes {takes} only, and the suite has {has}", hint=f"name one of {others}")
    return UsageError(
        f"--page-size: {names} takes {takes} only", hint=f"leave out --page-size, or name one of {others}"
    )


def check_accepted(case: DecodeCase, variants: Sequence[Variant]) -> None:
    """UsageError where none of the kernels accepts the case; before anything is built for it."""
    values = {"group": case.group, "qo_len": case.qo_len, "kv_len": case.kv_len, "page_size": case.page_size}
    kernels = {variant.kernel.name: variant.kernel for variant in variants}
    refusals = [
        f"{kernel.name} takes {name} {span.start}..{'' if span.stop is None else span.stop}, not {value}"
        for kernel in kernels.values()
        for name, span in kernel.accepts.items()
        if (value := values.get(name)) is not None and not _holds(span, value)
    ]
    if len({refusal.split()[0] for refusal in refusals}) == len(kernels):
        kind = "prefill" if case.prefill else "decode"
        raise UsageError(f"{case.label}: no {kind} kernel accepts it", hint="\n".join(refusals))
    if case.batch > MAX_BATCH:
        raise UsageError(f"{case.label}: batch is at most {MAX_BATCH}", hint="a sequence is a row of the grid")


def _holds(span: Range, value: int) -> bool:
    return span.start <= value and (span.stop is None or value <= span.stop)
