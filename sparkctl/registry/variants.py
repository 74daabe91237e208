"""The points of a kernel's axes, and the selection of them by name, axis value and arch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import product

from sparkctl.arch import Arch, limits_for
from sparkctl.errors import UsageError
from sparkctl.registry.formula import evaluate
from sparkctl.registry.model import AxisValue, Kernel, Registry, Variant
from sparkctl.registry.suggest import did_you_mean


def span_variants(kernel: Kernel) -> tuple[Variant, ...]:
    """All points of the axes that every `require` formula allows, in axis order."""
    points = (point for point in axis_points(kernel) if all(evaluate(rule, point) for rule in kernel.require))
    return tuple(_variant(kernel, point) for point in points)


def axis_points(kernel: Kernel) -> Iterator[dict[str, AxisValue]]:
    """All points of the axes, allowed or not, in axis order."""
    names = [axis.name for axis in kernel.axes]
    return (dict(zip(names, values, strict=True)) for values in product(*(axis.values for axis in kernel.axes)))


def select_variants(
    registry: Registry,
    patterns: Sequence[str] = (),
    *,
    arch: Arch | None = None,
    where: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Variant, ...]:
    """Variants in registry order.

    A pattern is a kernel name, a glob, or with a dot in it a variant name or glob; none selects every kernel.
    `where` maps an axis to the values kept; an axis that only some selected kernels have narrows only those.
    `arch` drops what it cannot run: kernels with a later min_arch, variants with more dynamic shared memory than
    one block may have. Raises UsageError for an unknown kernel, axis or value, when nothing is left, and for a variant
    asked for by its full name that would be dropped.
    """
    variants = _matching(registry, patterns)
    for axis, values in (where or {}).items():
        variants = _narrowed(variants, axis, values)
    if not variants:
        raise UsageError("no variant has all of the values asked for", hint=_where_text(where or {}))
    if arch is None:
        return tuple(variants)
    named = [v for v in variants if "." in v.name and v.name in patterns and not runs_on(v, arch)]
    if named:
        raise UsageError(f"{named[0].name} does not run on {arch.name}", hint=_why_not(named[:1], arch))
    kept = tuple(variant for variant in variants if runs_on(variant, arch))
    if not kept:
        raise UsageError(f"nothing selected runs on {arch.name}", hint=_why_not(variants, arch))
    return kept


def runs_on(variant: Variant, arch: Arch) -> bool:
    """Whether the arch meets the kernel's min_arch and gives one block enough dynamic shared memory."""
    return (
        arch.supports(variant.kernel.min_arch) and variant.dynamic_smem_bytes <= limits_for(arch).smem_per_block_optin
    )


def _variant(kernel: Kernel, point: Mapping[str, AxisValue]) -> Variant:
    parts = [f"{axis.short}{point[axis.name]}" for axis in kernel.axes if point[axis.name] != axis.default]
    return Variant(
        kernel=kernel,
        values=tuple(point.items()),
        name=".".join([kernel.name, *parts]),
        block_threads=None if kernel.block is None else evaluate(kernel.block, point),
        dynamic_smem_bytes=evaluate(kernel.dynamic_smem, point),
    )


def _matching(registry: Registry, patterns: Sequence[str]) -> list[Variant]:
    everything = [variant for kernel in registry.kernels.values() for variant in span_variants(kernel)]
    if not everything:
        raise UsageError(
            f"{registry.path.name}: no kernels", hint="add one under kernels; docs/registry.md has the grammar"
        )
    chosen: set[str] = set()
    for pattern in patterns:
        found = {variant.name for variant in everything if _matches(variant, pattern)}
        if not found:
            raise _unknown_kernel(registry, everything, pattern)
        chosen |= found
    return [variant for variant in everything if not patterns or variant.name in chosen]


def _matches(variant: Variant, pattern: str) -> bool:
    return fnmatchcase(variant.name if "." in pattern else variant.kernel.name, pattern)


def _unknown_kernel(registry: Registry, variants: Sequence[Variant], pattern: str) -> UsageError:
    if "." in pattern:
        return UsageError(f"unknown variant '{pattern}'", hint=did_you_mean(pattern, [v.name for v in variants]))
    kind = "no kernel matches" if set(pattern) & set("*?[") else "unknown kernel"
    return UsageError(f"{kind} '{pattern}'", hint=did_you_mean(pattern, registry.kernels))


def _narrowed(variants: Sequence[Variant], axis: str, values: Sequence[str]) -> list[Variant]:
    """Variants on one of `values`, and those without the axis."""
    axes = {a.name: a for variant in variants for a in variant.kernel.axes}
    if axis not in axes:
        raise UsageError(
            f"unknown axis '{axis}'", hint=did_you_mean(axis, axes) if axes else "nothing selected has axes"
        )
    known = _unique(str(value) for v in variants for name, value in v.values if name == axis)
    for value in values:
        if value not in known:
            raise UsageError(f"axis {axis}: unknown value '{value}'", hint="known: " + ", ".join(known))
    return [v for v in variants if axis not in dict(v.values) or str(v.value(axis)) in values]


def _unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


def _where_text(where: Mapping[str, Sequence[str]]) -> str:
    return "asked for: " + ", ".join(f"{axis}={','.join(values)}" for axis, values in where.items())


def _why_not(variants: Sequence[Variant], arch: Arch) -> str:
    too_new = [v.kernel for v in variants if not arch.supports(v.kernel.min_arch)]
    if len(too_new) == len(variants):
        return "min_arch: " + ", ".join(_unique(f"{kernel.name} {kernel.min_arch.name}" for kernel in too_new))
    least = min((v for v in variants if arch.supports(v.kernel.min_arch)), key=lambda v: v.dynamic_smem_bytes)
    most = limits_for(arch).smem_per_block_optin
    needed = "it needs" if len(variants) == 1 else f"the smallest, {least.name}, needs"
    reason = f"{needed} {least.dynamic_smem_bytes} bytes of dynamic shared memory; a block on {arch.name} gets {most}"
    return f"{reason} at most{_what_fits(least, arch)}"


def _what_fits(variant: Variant, arch: Arch) -> str:
    """`; these fit: …`, the variants that run and differ in one axis alone; empty where there is none of the same kind.

    Another dtype or head_dim is another task, not another choice.
    """
    fitting = [
        other.name
        for other in span_variants(variant.kernel)
        if runs_on(other, arch)
        and {name for (name, a), (_, b) in zip(variant.values, other.values, strict=True) if a != b}
        in [{axis.name} for axis in variant.kernel.axes if axis.name not in ("dtype", "head_dim")]
    ]
    return f"; these fit: {', '.join(fitting)}" if fitting else ""
