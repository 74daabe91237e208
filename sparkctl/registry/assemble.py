"""From the parsed grammar to frozen data: folds profiles, makes values canonical, checks what spans several keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from sparkctl.arch import Arch, parse_arch
from sparkctl.errors import UsageError
from sparkctl.registry.assemble_kernel import assemble_kernel
from sparkctl.registry.assemble_profile import IDENTIFIER, assemble_profiles
from sparkctl.registry.assemble_sets import assemble_sets, scalar_text
from sparkctl.registry.assemble_suite import assemble_suites
from sparkctl.registry.document import KeyPath
from sparkctl.registry.model import Flag, Kernel, Range, Registry
from sparkctl.registry.naming import MAX_NAME, Naming
from sparkctl.registry.problems import Problems
from sparkctl.registry.schema import FlagSpec, RegistrySpec
from sparkctl.registry.suggest import did_you_mean
from sparkctl.registry.values import canonical_text, canonical_value, parse_range

# Macros that every variant gets; an axis or a flag must not take their names.
RESERVED_MACROS = ("SPARK_BLOCK", "SPARK_DYNAMIC_SMEM", "SPARK_VARIANT", "SPARK_EMULATOR")


def assemble_registry(spec: RegistrySpec, file: Path, problems: Problems, *, strict: bool) -> Registry:
    """What is wrong goes to `problems`; the result is only good if nothing did."""
    flags = {name: _assemble_flag(name, flag, spec, problems) for name, flag in spec.flags.items()}
    _check_flag_names(flags, problems)
    profiles = assemble_profiles(spec.profiles, flags, problems)
    naming = _check_naming(spec, problems)
    kernels: dict[str, Kernel] = {}
    for name, kernel in spec.kernels.items():
        if strict and naming is not None and len(name) <= MAX_NAME and not naming.matches(name):
            problems.add(("kernels", name), f"the name does not match the naming pattern '{spec.naming}'")
        sets = assemble_sets(kernel.set, ("kernels", name, "set"), flags, problems)
        arch_sets = {
            arch: assemble_sets(values, ("kernels", name, "arch", arch), flags, problems)
            for arch, values in kernel.arch.items()
        }
        kernels[name] = assemble_kernel(name, kernel, sets, arch_sets, problems, file.parent)
    _check_sources(spec, file.parent, problems, strict)
    _check_helpers(spec, file.parent, problems)
    _check_cases(spec, file.parent, problems)
    _check_macros(flags, kernels, problems)
    suites = assemble_suites(spec.suites, problems)
    archs = _read_archs(spec.archs, problems)
    return Registry(
        path=file,
        root=file.parent,
        naming=spec.naming,
        archs=archs,
        emulator=spec.emulator,
        helpers=tuple(spec.helpers),
        profiles=profiles,
        flags=flags,
        kernels=kernels,
        suites=suites,
    )


def _assemble_flag(name: str, spec: FlagSpec, registry: RegistrySpec, problems: Problems) -> Flag:
    path = ("flags", name)
    if not IDENTIFIER.fullmatch(name):
        problems.add(path, "a flag's name is letters, digits and _, not starting with a digit")
    flag = Flag(
        name=name,
        kind=spec.kind,
        type=spec.type,
        default="",
        doc=spec.doc,
        reason=spec.reason,
        affects=tuple(spec.affects),
        accepts=_accepts(spec, path, problems),
        define=(spec.define or f"SPARK_{name.upper()}") if spec.kind == "define" else None,
        options=_options(spec, path, problems),
        locations=problems.document.below(path),
        location=problems.document.location(path),
    )
    _check_kind(spec, path, problems)
    for index, glob in enumerate(spec.affects):
        if registry.kernels and not any(fnmatchcase(kernel, glob) for kernel in registry.kernels):
            hint = did_you_mean(glob, registry.kernels)
            problems.add((*path, "affects", index), f"'{glob}' matches no kernel", hint)
    try:
        default = canonical_value(flag, scalar_text(spec.default))
    except UsageError as error:
        problems.add((*path, "default"), f"'{scalar_text(spec.default)}' is not accepted", error.hint)
        return flag
    return replace(flag, default=default)


def _accepts(spec: FlagSpec, path: KeyPath, problems: Problems) -> tuple[str, ...] | Range | None:
    if spec.accepts is None:
        return None
    where = (*path, "accepts")
    if isinstance(spec.accepts, str):
        accepted = parse_range(spec.accepts) if spec.type == "int" else None
        if accepted is None:
            problems.add(
                where, f"'{spec.accepts}' is no list and no range", "write [a, b], or for type int 1..32 or 0.."
            )
        return accepted
    values = [canonical_text(spec.type, scalar_text(value)) for value in spec.accepts]
    for index, value in enumerate(values):
        if value is None:
            problems.add((*where, index), f"'{spec.accepts[index]}' is not of type {spec.type}")
    return tuple(value for value in values if value is not None)


def _options(spec: FlagSpec, path: KeyPath, problems: Problems) -> dict[str, tuple[str, ...]]:
    options: dict[str, tuple[str, ...]] = {}
    for key, tokens in spec.options.items():
        value = key if key == "*" else canonical_text(spec.type, key)
        where = (*path, "options", key)
        if value is None:
            problems.add(where, f"'{key}' is not of type {spec.type}")
        elif value in options:
            problems.add(where, f"the value {value} is written twice")
        else:
            options[value] = tuple(tokens)
        if key == "*" and not any("{value}" in token for token in tokens):
            problems.add(where, "a template needs {value} in it")
    return options


def _check_kind(spec: FlagSpec, path: KeyPath, problems: Problems) -> None:
    takes_options = spec.kind in ("nvcc", "ptxas", "host")
    if takes_options and not spec.options:
        problems.add(path, f"kind {spec.kind} needs 'options'", "such as options: {1: [--use_fast_math], 0: []}")
    if spec.options and not takes_options:
        problems.add((*path, "options"), f"kind {spec.kind} takes no options", "kinds nvcc, ptxas and host do")
    if spec.define is not None and spec.kind != "define":
        problems.add((*path, "define"), f"kind {spec.kind} takes no define", "kind define does")
    if spec.define is not None and not IDENTIFIER.fullmatch(spec.define):
        problems.add((*path, "define"), f"'{spec.define}' is not a macro's name")


def _check_flag_names(flags: Iterable[str], problems: Problems) -> None:
    seen: dict[str, str] = {}
    for name in flags:
        other = seen.setdefault(name.upper(), name)
        if other != name:
            problems.add(
                ("flags", name), f"differs from '{other}' only in case", "SPARKCTL_FLAG_… could not tell them apart"
            )


def _check_naming(spec: RegistrySpec, problems: Problems) -> Naming | None:
    try:
        return Naming(spec.naming) if spec.naming is not None else None
    except ValueError as error:
        problems.add(("naming",), f"not a regular expression: {error}", "docs/registry.md says what it may hold")
        return None


def _check_sources(spec: RegistrySpec, root: Path, problems: Problems, strict: bool) -> None:
    """One source is one kernel: two entries on a file would register the same names twice."""
    first: dict[Path, str] = {}
    for name, kernel in spec.kernels.items():
        where: KeyPath = ("kernels", name, "source")
        if not problems.is_whole(where):
            continue
        target = (root / kernel.source).resolve()
        other = first.setdefault(target, name)
        if other != name:
            problems.add(where, f"'{kernel.source}' is already the source of '{other}'")
        elif not target.is_relative_to(root.resolve()):
            problems.add(where, f"'{kernel.source}' is outside the project")
        elif strict and not target.is_file():
            known = [str(file.relative_to(root)) for file in sorted((root / "csrc").glob("**/*.cu"))]
            problems.add(where, f"no such file '{kernel.source}'", did_you_mean(kernel.source, known))


def _check_helpers(spec: RegistrySpec, root: Path, problems: Problems) -> None:
    taken = {(root / kernel.source).resolve(): f"the source of '{name}'" for name, kernel in spec.kernels.items()}
    for index, helper in enumerate(spec.helpers):
        where: KeyPath = ("helpers", index)
        target = (root / helper).resolve()
        if target in taken:
            problems.add(where, f"'{helper}' is already {taken[target]}")
        elif not target.is_relative_to(root.resolve()):
            problems.add(where, f"'{helper}' is outside the project")
        elif not target.is_file():
            problems.add(where, f"no such file '{helper}'")
        taken[target] = "a helper"


def _check_cases(spec: RegistrySpec, root: Path, problems: Problems) -> None:
    for name, kernel in spec.kernels.items():
        where: KeyPath = ("kernels", name, "cases")
        if kernel.cases is None:
            continue
        if kernel.cases.endswith(".py"):
            if not (root / kernel.cases).is_file():
                problems.add(where, f"no such file '{kernel.cases}'")
            elif not (root / kernel.cases).resolve().is_relative_to(root.resolve()):
                problems.add(where, f"'{kernel.cases}' is outside the project")
        elif kernel.cases not in spec.kernels or spec.kernels[kernel.cases].cases:
            hint = did_you_mean(kernel.cases, [other for other, entry in spec.kernels.items() if not entry.cases])
            problems.add(where, f"'{kernel.cases}' is no Python file, and no kernel with cases of its own", hint)


def _read_archs(names: Iterable[str], problems: Problems) -> tuple[Arch, ...]:
    archs: dict[Arch, None] = {}
    for index, name in enumerate(names):
        try:
            archs[parse_arch(name)] = None
        except UsageError as error:
            problems.add_error(("archs", index), error)
    return tuple(archs)


def _check_macros(flags: Mapping[str, Flag], kernels: Mapping[str, Kernel], problems: Problems) -> None:
    """No two of a kernel's axes and flags may set one macro."""
    for flag in flags.values():
        if flag.define in RESERVED_MACROS:
            problems.add(("flags", flag.name), f"the macro {flag.define} is set for every variant")
    for kernel in kernels.values():
        taken = dict.fromkeys(RESERVED_MACROS, "every variant")
        taken |= {
            flag.define: f"flag '{flag.name}'" for flag in flags.values() if flag.define and flag.reaches(kernel.name)
        }
        for axis in kernel.axes:
            macro = f"SPARK_{axis.name.upper()}"
            if macro in taken:
                problems.add(
                    ("kernels", kernel.name, "axes", axis.name), f"its macro {macro} is set for {taken[macro]}"
                )
