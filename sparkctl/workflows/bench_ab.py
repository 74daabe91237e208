"""`bench --ab NAME=v1,v2`: what may be varied, and the arms that differ in it and in nothing else. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sparkctl.bench.ab import OPTIONS, Ab
from sparkctl.bench.arms import attention_shape, choose_for
from sparkctl.bench.axes import DecodeCase
from sparkctl.bench.call_options import PLAIN, parse_call_options
from sparkctl.bench.sizes import parse_list
from sparkctl.errors import UsageError
from sparkctl.ops.checks import MAX_SPLITS
from sparkctl.ops.flags import AXIS_OF_FLAG
from sparkctl.ops.plan import KERNEL_PREFERENCE, accepted
from sparkctl.ops.prefill_plan import PREFILL_KERNELS
from sparkctl.registry import Registry, Variant
from sparkctl.registry.suggest import did_you_mean
from sparkctl.registry.values import canonical_value
from sparkctl.workflows.bench_request import BenchRequest, PlannedArm, described

NUM_SPLITS = "num_splits"
REVISION, LIBRARY = "revision", "library"  # what --vs varies
COMPILED = ("define", "nvcc", "ptxas")  # kinds of flags that change a kernel: a library for each value
AUTO = "auto"  # the planner's own number of splits
# What makes up a case: arms that differ in it have different inputs.
CASE_OPTIONS = {
    **{name: f"--{name.replace('_', '-')}" for name in ("head_dim", "dtype", "batch", "heads", "qo_len", "page_size")},
    "kv_len": "--seq",
    "seq": "--seq",
    "paged": "--page-size",
    "causal": "--causal",
    "l2": "--l2",
}


@dataclass(frozen=True, slots=True)
class ArmPlan:
    """Arms of one case, and the variants that they need.

    Arms differ in one thing: they run in as many splits as the planner gives to `reference`, the operator's own choice
    among them; None where num_splits itself is varied.
    """

    arms: tuple[PlannedArm, ...]
    variants: Sequence[Variant]
    reference: PlannedArm | None


def parse_ab(registry: Registry, text: str, *, compiled: bool = False) -> Ab:
    """`stages=1,2`, `num_splits=auto,8`, `FAPIPE=0,1`, and where `compiled` also `min_blocks=1,4`; values canonical.

    UsageError for a name that nothing has, for a value that it does not take, and for fewer than two different values.
    """
    name, equals, listed = text.partition("=")
    name, values = name.strip(), [value.strip() for value in listed.split(",") if value.strip()]
    if not equals or not name or not values:
        raise UsageError(f"--ab {text}: no values", hint="write it as --ab NAME=VALUE,VALUE: --ab stages=1,2")
    _check_name(registry, name, compiled=compiled)
    canonical = [_canonical(registry, name, value) for value in values]
    for index, value in enumerate(canonical):
        if value in canonical[:index]:
            raise UsageError(f"--ab {text}: {value} is written twice", hint="arms that differ: --ab NAME=VALUE,VALUE")
    if len(canonical) < 2:
        raise UsageError(f"--ab {text}: one value has nothing to be held against", hint=f"--ab {name}=VALUE,VALUE")
    return Ab(name, tuple(canonical))


def _check_name(registry: Registry, name: str, *, compiled: bool) -> None:
    """UsageError for a name that cannot be varied within a run."""
    if name in CASE_OPTIONS:
        raise UsageError(
            f"--ab {name}: it makes up a case, and arms need the same inputs", hint=f"{CASE_OPTIONS[name]} takes a list"
        )
    flag = registry.flags.get(name)
    if flag is not None and flag.kind not in ("runtime", *COMPILED):
        raise UsageError(f"--ab {name}: a flag of kind {flag.kind} changes no kernel", hint="sparkctl flags lists them")
    if flag is not None and flag.kind != "runtime" and not compiled:
        raise UsageError(
            f"--ab {name}: a flag of kind {flag.kind} is compiled in, and this run has one library",
            hint=f"sparkctl bench --ab {name}=… builds a library for each value",
        )
    axes = _axis_values(registry)
    if name != NUM_SPLITS and flag is None and name not in axes:
        kinds = ("runtime", *COMPILED) if compiled else ("runtime",)
        switches = [flag.name for flag in registry.flags.values() if flag.kind in kinds]
        names = [*(axis for axis in axes if axis not in CASE_OPTIONS), NUM_SPLITS, *switches]
        raise UsageError(f"--ab {name}: no axis and no flag", hint=did_you_mean(name, names))


def _canonical(registry: Registry, name: str, value: str) -> str:
    if name == NUM_SPLITS:
        return _splits(value)
    if name in registry.flags:
        return canonical_value(registry.flags[name], value)
    known = _axis_values(registry)[name]
    if value not in known:
        raise UsageError(f"--ab {name}: unknown value '{value}'", hint="known: " + ", ".join(known))
    return value


def _axis_values(registry: Registry) -> dict[str, list[str]]:
    """The axes of all kernels that bench measures, with every value that one of them has."""
    values: dict[str, list[str]] = {}
    for kernel in _measured(registry):
        for axis in registry.kernels[kernel].axes:
            known = values.setdefault(axis.name, [])
            known += [str(value) for value in axis.values if str(value) not in known]
    return values


def _measured(registry: Registry) -> list[str]:
    names = dict.fromkeys(name for kernels in (*KERNEL_PREFERENCE.values(), PREFILL_KERNELS) for name in kernels)
    return [name for name in names if name in registry.kernels]


def _splits(text: str) -> str:
    if text == AUTO:
        return text
    if not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= MAX_SPLITS:
        raise UsageError(f"--ab num_splits: '{text}' is not accepted", hint=f"1 to {MAX_SPLITS}, or auto")
    return str(int(text))


def parse_options(text: str) -> Ab:
    """`lse,window=4k`: plain attention, then each of these. UsageError for anything else, and for one written twice."""
    try:
        listed = parse_list(text, parse_call_options, option="--options")
    except UsageError as error:
        message = error.message.removeprefix("--options: ").removeprefix("--options ")
        raise UsageError(f"--options: {message}", hint=error.hint) from error
    return Ab(OPTIONS, tuple(map(str, (PLAIN, *listed))))


def varies_library(ab: Ab, registry: Registry) -> bool:
    """Whether the arms are one call into several libraries."""
    return ab.name in (REVISION, LIBRARY) or (ab.name in registry.flags and registry.flags[ab.name].kind in COMPILED)


def check_conflicts(registry: Registry, ab: Ab, request: BenchRequest) -> None:
    """UsageError where another option fixes what the arms are to differ in."""
    axis = AXIS_OF_FLAG[ab.name][0] if ab.name in AXIS_OF_FLAG else ab.name
    fixed = None
    if ab.name in (NUM_SPLITS, OPTIONS) and any(case.prefill for case in request.cases):
        option = "--options" if ab.name == OPTIONS else f"--ab {ab.name}"
        raise UsageError(f"{option} is of decode, and the cases are of prefill", hint="leave out one of them")
    if ab.name == NUM_SPLITS:
        fixed = "--num-splits" if any(case.num_splits is not None for case in request.cases) else None
    elif axis in request.where:
        fixed = f"--where {axis}={','.join(request.where[axis])}"
    elif not varies_library(ab, registry) and (
        names := [pattern for pattern in request.patterns if "." in pattern and not set(pattern) & set("*?[")]
    ):
        fixed = f"the variant {names[0]}"
    given = {**request.sets, **request.flags}
    for flag in given:
        if flag == ab.name or AXIS_OF_FLAG.get(flag, ("",))[0] == ab.name:
            fixed = f"--set {flag}={given[flag]}"
    if fixed is not None:
        raise UsageError(f"--ab {ab.name}: {fixed} fixes what it varies", hint="leave out one of them")


def plan_arms(
    registry: Registry, request: BenchRequest, ab: Ab, case: DecodeCase, variants: Sequence[Variant]
) -> Iterator[ArmPlan]:
    """For each kernel that was named, or for the operator's choice, its arms."""
    reached = [variant for variant in variants if _reaches(registry, ab, variant)]
    if not reached:
        names = ", ".join(dict.fromkeys(variant.kernel.name for variant in variants))
        other = [k for k in _measured(registry) if ab.name in _names_reaching(registry, k)]
        raise UsageError(f"--ab {ab.name}: it does not reach {names}", hint="it reaches " + ", ".join(other))
    kernels = list(dict.fromkeys(variant.kernel.name for variant in reached))
    if not request.patterns:
        chosen = choose_for([described(variant) for variant in reached], case)
        kernels = [chosen.kernel] if chosen is not None else kernels[:1]
    for kernel in kernels:
        own = [variant for variant in reached if variant.kernel.name == kernel]
        if ab.name == NUM_SPLITS:
            yield from _splits_arms(request, ab, kernel, own)
        elif ab.name == OPTIONS:
            yield from _options_arms(request, ab, kernel, own)
        elif varies_library(ab, registry):
            yield from _library_arms(request, ab, case, kernel, own)
        elif ab.name in registry.flags:
            arms = tuple(
                PlannedArm(kernel=kernel, flags={**request.flags, ab.name: value}, label=label)
                for label, value in zip(ab.labels, ab.values, strict=True)
            )
            yield ArmPlan(arms, own, PlannedArm(kernel=kernel, flags=request.flags))
        else:
            yield _axis_arms(ab, case, kernel, own)


def _splits_arms(request: BenchRequest, ab: Ab, kernel: str, variants: list[Variant]) -> Iterator[ArmPlan]:
    """The kernel's own choice of a variant, or each variant that was named, in as many splits as each arm says."""
    named = any("." in pattern for pattern in request.patterns)
    for base in variants if named else [None]:
        arms = (
            PlannedArm(
                variant=None if base is None else base.name,
                kernel=kernel,
                num_splits=None if value == AUTO else int(value),
                flags=request.flags,
                label=label,
            )
            for label, value in zip(ab.labels, ab.values, strict=True)
        )
        yield ArmPlan(tuple(arms), variants if base is None else [base], None)


def _options_arms(request: BenchRequest, ab: Ab, kernel: str, variants: list[Variant]) -> Iterator[ArmPlan]:
    """As a program would call it: each call is planned for the keys that it sees."""
    named = any("." in pattern for pattern in request.patterns) or request.where
    for base in variants if named else [None]:
        arms = (
            PlannedArm(
                variant=None if base is None else base.name,
                kernel=kernel,
                flags=request.flags,
                options=PLAIN if value == str(PLAIN) else parse_call_options(value),
                label=label,
            )
            for label, value in zip(ab.labels, ab.values, strict=True)
        )
        yield ArmPlan(tuple(arms), variants if base is None else [base], None)


def _library_arms(
    request: BenchRequest, ab: Ab, case: DecodeCase, kernel: str, variants: list[Variant]
) -> Iterator[ArmPlan]:
    """The same variant in every library: what the operator would choose, or each that was named."""
    among = [described(v) for v in variants]
    chosen = choose_for(among, case, kernel)
    named = any("." in pattern for pattern in request.patterns) or request.where
    bases = variants if named else [v for v in variants if chosen is not None and v.name == chosen.name]
    if not bases:
        raise UsageError(f"{case.label}: no variant of {kernel} takes it")
    for base in bases:
        arms = tuple(PlannedArm(base.name, kernel, flags=request.flags, label=label) for label in ab.labels)
        yield ArmPlan(arms, [base], PlannedArm(base.name, kernel, flags=request.flags))


def _axis_arms(ab: Ab, case: DecodeCase, kernel: str, variants: list[Variant]) -> ArmPlan:
    """What the operator would choose among the values of the arms, and its neighbours along the axis.

    Variants that have a neighbour for every arm come first; where there is none, the error is that of the best.
    """
    among = [v for v in variants if str(v.value(ab.name)) in ab.values]
    whole = [v for v in among if set(ab.values) <= _neighbours(ab.name, v, variants).keys()]
    base = choose_for([described(v) for v in whole or among], case, kernel)
    if base is None:
        raise UsageError(f"{case.label}: no variant of {kernel} with {' or '.join(ab.labels)} takes it")
    found: list[Variant] = []
    neighbours = _neighbours(ab.name, next(v for v in among if v.name == base.name), variants)
    for value, label in zip(ab.values, ab.labels, strict=True):
        if value not in neighbours or not accepted(described(neighbours[value]), attention_shape(case)):
            raise UsageError(
                f"{case.label}: no variant beside {base.name} has {label} here",
                hint=f"{ab.name} of its neighbours: {', '.join(neighbours)}",
            )
        found.append(neighbours[value])
    arms = tuple(PlannedArm(v.name, kernel, label=label) for v, label in zip(found, ab.labels, strict=True))
    return ArmPlan(arms, found, PlannedArm(base.name, kernel))


def _neighbours(axis: str, variant: Variant, variants: Sequence[Variant]) -> dict[str, Variant]:
    """By value of the axis, the variants that differ from this one in nothing else; itself among them."""
    rest = [(name, value) for name, value in variant.values if name != axis]
    return {str(v.value(axis)): v for v in variants if [(n, x) for n, x in v.values if n != axis] == rest}


def _reaches(registry: Registry, ab: Ab, variant: Variant) -> bool:
    return ab.name in _names_reaching(registry, variant.kernel.name)


def _names_reaching(registry: Registry, kernel: str) -> set[str]:
    """Everything that can be varied for a kernel."""
    flags = {flag.name for flag in registry.flags.values() if flag.reaches(kernel)}
    return {NUM_SPLITS, OPTIONS, REVISION, LIBRARY, *flags, *(axis.name for axis in registry.kernels[kernel].axes)}
