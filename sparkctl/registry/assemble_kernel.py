"""One kernel's entry to frozen data: axes, formulas tried on every point, ranges, archs, source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from pathlib import Path

from sparkctl.arch import KNOWN_ARCHS, Arch, parse_arch
from sparkctl.errors import UsageError
from sparkctl.registry.document import KeyPath
from sparkctl.registry.formula import evaluate
from sparkctl.registry.model import Axis, Kernel, Range
from sparkctl.registry.naming import MAX_NAME
from sparkctl.registry.problems import Problems
from sparkctl.registry.schema import AxisSpec, KernelSpec
from sparkctl.registry.values import parse_range
from sparkctl.registry.variants import axis_points, span_variants

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
TEXT = re.compile(r"[A-Za-z0-9_.]+")  # what may stand in file names, defines and ninja files
MAX_BLOCK = 1024  # threads; CUDA's limit on every arch
MAX_POINTS = 10_000
MAX_VALUE = 2**31 - 1  # an axis' value is an int in the source


def assemble_kernel(
    name: str,
    spec: KernelSpec,
    sets: Mapping[str, str],
    arch_sets: Mapping[str, Mapping[str, str]],
    problems: Problems,
    root: Path,
) -> Kernel:
    """What is wrong goes to `problems`; the result is only good if nothing did."""
    path: KeyPath = ("kernels", name)
    before = problems.count
    own_cases = spec.cases is not None and spec.cases.endswith(".py")
    _check_shorts(spec, path, problems)
    if not NAME.fullmatch(name):
        problems.add(path, "a kernel's name is letters, digits and _, not starting with a digit")
    if len(name) > MAX_NAME:
        problems.add(path, f"the name is longer than {MAX_NAME} characters")
    for key in (*arch_sets, *(key for key in spec.nvcc if key != "*")):
        section = "arch" if key in arch_sets else "nvcc"
        _read_arch(key, (*path, section, key), problems)
    kernel = Kernel(
        name=name,
        family=spec.family,
        doc=spec.doc,
        source=spec.source,
        min_arch=_read_arch(str(spec.min_arch), (*path, "min_arch"), problems),
        axes=tuple(_assemble_axis(axis, values, (*path, "axes", axis), problems) for axis, values in spec.axes.items()),
        require=tuple(spec.require),
        block=None if spec.block is None else str(spec.block),
        dynamic_smem=str(spec.dynamic_smem),
        accepts=_read_ranges(spec.accepts, (*path, "accepts"), problems),
        cases=None if own_cases else spec.cases,
        cases_file=root / str(spec.cases) if own_cases else None,
        link=spec.link,
        set=sets,
        arch_set=arch_sets,
        nvcc={arch: tuple(tokens) for arch, tokens in spec.nvcc.items()},
        waivers=tuple(waiver.model_dump(exclude_none=True) for waiver in spec.waivers),
        locations=problems.document.below(path),
        location=problems.document.location(path),
    )
    if problems.count == before and problems.is_whole(path):
        _check_points(kernel, path, problems)
    return kernel


def _read_arch(text: str, path: KeyPath, problems: Problems) -> Arch:
    try:
        return parse_arch(text)
    except UsageError as error:
        problems.add_error(path, error)
        return KNOWN_ARCHS[0]


def _assemble_axis(name: str, spec: AxisSpec, path: KeyPath, problems: Problems) -> Axis:
    if not NAME.fullmatch(name):
        problems.add(path, "an axis' name is letters, digits and _, not starting with a digit")
    if spec.short and not TEXT.fullmatch(spec.short):
        problems.add((*path, "short"), f"'{spec.short}' has other characters than letters, digits, _ and .")
    for index, value in enumerate(spec.values):
        where = (*path, "values", index)
        if not TEXT.fullmatch(str(value)):
            problems.add(where, f"'{value}' has other characters than letters, digits, _ and .")
        elif value in spec.values[:index]:
            problems.add(where, f"{value} is written twice")
        elif str(value).isdecimal() and int(value) > MAX_VALUE:
            problems.add(where, f"{value} is more than {MAX_VALUE}, the most that an int holds")
    if spec.default is not None and spec.default not in spec.values:
        listed = ", ".join(str(value) for value in spec.values)
        problems.add((*path, "default"), f"'{spec.default}' is not among the values", f"values: {listed}")
    return Axis(name, tuple(spec.values), spec.short, spec.default, problems.document.location(path))


def _check_shorts(spec: KernelSpec, path: KeyPath, problems: Problems) -> None:
    """Else a name would not tell which axis has which value."""
    first: dict[str, str] = {}
    for name, axis in spec.axes.items():
        other = first.setdefault(axis.short, name) if axis.short else name
        if other != name:
            problems.add((*path, "axes", name, "short"), f"'{axis.short}' is already the short of axis '{other}'")


def _read_ranges(accepts: Mapping[str, int | str], path: KeyPath, problems: Problems) -> dict[str, Range]:
    ranges: dict[str, Range] = {}
    for name, text in accepts.items():
        accepted = parse_range(str(text))
        if not NAME.fullmatch(name):
            problems.add((*path, name), "a name is letters, digits and _, not starting with a digit")
        if accepted is None:
            problems.add((*path, name), f"'{text}' is no range", "write 1..64, 0.. or 16")
        else:
            ranges[name] = accepted
    return ranges


def _check_points(kernel: Kernel, path: KeyPath, problems: Problems) -> None:
    """Tries every formula on every point, so that a mistake shows here and not in a build."""
    if prod(len(axis.values) for axis in kernel.axes) > MAX_POINTS:
        problems.add((*path, "axes"), f"the axes span more than {MAX_POINTS} points")
        return
    if not _check_formulas(kernel, path, problems):
        return
    variants = span_variants(kernel)
    if not variants:
        problems.add((*path, "require"), "no point of the axes is left")
    names: set[str] = set()
    for variant in variants:
        if variant.block_threads is not None and not 1 <= variant.block_threads <= MAX_BLOCK:
            problems.add(
                (*path, "block"), f"{variant.block_threads} threads at {variant.name}; 1..{MAX_BLOCK} can launch"
            )
            return
        if variant.dynamic_smem_bytes < 0:
            problems.add((*path, "dynamic_smem"), f"{variant.dynamic_smem_bytes} bytes at {variant.name}")
            return
        if variant.name in names:
            problems.add((*path, "axes"), f"two points are named {variant.name}", "give an axis a 'short' prefix")
            return
        names.add(variant.name)


def _check_formulas(kernel: Kernel, path: KeyPath, problems: Problems) -> bool:
    """Whether all formulas come to a number on every point; the first that does not is a problem at its line."""
    for point in axis_points(kernel):
        where: KeyPath = path
        try:
            for where, rule in _rules(kernel, path):  # noqa: B007 - read by the handler
                if not evaluate(rule, point):
                    break
            else:
                for where, size in _sizes(kernel, path):  # noqa: B007
                    evaluate(size, point)
        except UsageError as error:
            problems.add_error(where, error)
            return False
    return True


def _rules(kernel: Kernel, path: KeyPath) -> list[tuple[KeyPath, str]]:
    return [((*path, "require", index), rule) for index, rule in enumerate(kernel.require)]


def _sizes(kernel: Kernel, path: KeyPath) -> list[tuple[KeyPath, str]]:
    sizes: list[tuple[KeyPath, str]] = [] if kernel.block is None else [((*path, "block"), kernel.block)]
    return [*sizes, ((*path, "dynamic_smem"), kernel.dynamic_smem)]
