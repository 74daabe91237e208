"""From the parsed grammar to frozen data: folds profiles, makes values canonical, checks what spans several keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from sparkctl.errors import UsageError
from sparkctl.registry.assemble_kernel import assemble_kernel
from sparkctl.registry.document import KeyPath
from sparkctl.registry.model import Flag, Kernel, Location, Profile, Range, Registry
from sparkctl.registry.problems import Problems
from sparkctl.registry.schema import FlagSpec, ProfileSpec, RegistrySpec, Scalar
from sparkctl.registry.suggest import did_you_mean
from sparkctl.registry.values import canonical_text, canonical_value, parse_range

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PROFILE_NAME = re.compile(r"[A-Za-z0-9_]+")
# Macros that every variant gets; an axis or a flag must not take their names.
RESERVED_MACROS = ("SPARK_BLOCK", "SPARK_DYNAMIC_SMEM", "SPARK_VARIANT", "SPARK_EMULATOR")


def assemble_registry(spec: RegistrySpec, file: Path, problems: Problems, *, strict: bool) -> Registry:
    """What is wrong goes to `problems`; the result is only good if nothing did."""
    flags = {name: _assemble_flag(name, flag, spec, problems) for name, flag in spec.flags.items()}
    _check_flag_names(flags, problems)
    profiles = _assemble_profiles(spec, flags, problems)
    naming = _check_naming(spec, problems)
    kernels: dict[str, Kernel] = {}
    for name, kernel in spec.kernels.items():
        if strict and naming is not None and not naming.fullmatch(name):
            problems.add(("kernels", name), f"the name does not match the naming pattern '{naming.pattern}'")
        sets = assemble_sets(kernel.set, ("kernels", name, "set"), flags, problems)
        arch_sets = {
            arch: assemble_sets(values, ("kernels", name, "arch", arch), flags, problems)
            for arch, values in kernel.arch.items()
        }
        kernels[name] = assemble_kernel(name, kernel, sets, arch_sets, problems)
    _check_sources(spec, file.parent, problems, strict)
    _check_macros(flags, kernels, problems)
    return Registry(file, file.parent, spec.naming, profiles, flags, kernels)


def assemble_sets(
    values: Mapping[str, Scalar], path: KeyPath, flags: Mapping[str, Flag], problems: Problems
) -> dict[str, str]:
    """Canonical flag values of a `set`; unknown flags and refused values are problems."""
    result: dict[str, str] = {}
    for name, value in values.items():
        if name not in flags:
            problems.add_unknown((*path, name), "flag", flags)
            continue
        try:
            result[name] = canonical_value(flags[name], scalar_text(value))
        except UsageError as error:
            problems.add_error((*path, name), error)
    return result


def scalar_text(value: Scalar) -> str:
    """A YAML scalar as it would be typed: true is `1`."""
    return str(int(value)) if isinstance(value, bool) else str(value)


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


def _assemble_profiles(spec: RegistrySpec, flags: Mapping[str, Flag], problems: Problems) -> dict[str, Profile]:
    done: dict[str, Profile] = {}
    for name in spec.profiles:
        if not PROFILE_NAME.fullmatch(name):
            problems.add(("profiles", name), "a profile's name is letters, digits and _")
        _fold_profile(name, spec.profiles, (), done, flags, problems)
    return {name: done[name] for name in spec.profiles}


def _fold_profile(
    name: str,
    specs: Mapping[str, ProfileSpec],
    below: tuple[str, ...],
    done: dict[str, Profile],
    flags: Mapping[str, Flag],
    problems: Problems,
) -> Profile:
    """The profile with all that it extends folded in; `below` are the profiles that are being folded."""
    if name in done:
        return done[name]
    spec, path = specs[name], ("profiles", name)
    base = Profile("", "", (), (), (), {}, {}, {}, problems.document.location(path))
    if spec.extends is not None:
        where = (*path, "extends")
        if spec.extends not in specs:
            problems.add(where, f"unknown profile '{spec.extends}'", did_you_mean(spec.extends, specs))
        elif spec.extends in (*below, name):
            problems.add(where, "a cycle: " + " → ".join([*below, name, spec.extends]))
        else:
            base = _fold_profile(spec.extends, specs, (*below, name), done, flags, problems)
    for macro in spec.define:
        if not IDENTIFIER.fullmatch(macro):
            problems.add((*path, "define", macro), "not a macro's name")
    done[name] = Profile(
        name=name,
        doc=spec.doc,
        nvcc=_fold_tokens("nvcc", base.nvcc, spec.nvcc, spec, path, problems),
        ptxas=_fold_tokens("ptxas", base.ptxas, spec.ptxas, spec, path, problems),
        host=_fold_tokens("host", base.host, spec.host, spec, path, problems),
        define=dict(base.define) | {macro: str(value) for macro, value in spec.define.items()},
        set=dict(base.set) | assemble_sets(spec.set, (*path, "set"), flags, problems),
        locations=dict(base.locations) | _profile_locations(spec, path, problems),
        location=problems.document.location(path),
    )
    return done[name]


def _fold_tokens(
    kind: str, base: tuple[str, ...], own: list[str], spec: ProfileSpec, path: KeyPath, problems: Problems
) -> tuple[str, ...]:
    removed = spec.remove.get(kind, [])  # type: ignore[call-overload]
    for index, token in enumerate(removed):
        if token not in base:
            where = (*path, "remove", kind, index)
            problems.add(where, f"'{token}' is not in profile '{spec.extends}'", did_you_mean(token, base))
    return (*(token for token in base if token not in removed), *own)


def _profile_locations(spec: ProfileSpec, path: KeyPath, problems: Problems) -> dict[str, Location]:
    """`nvcc:-O3`, `define:SPARK_CHECKS` and `set:fast_math` to their lines."""
    at = problems.document.location
    lists = {"nvcc": spec.nvcc, "ptxas": spec.ptxas, "host": spec.host}
    found = {
        f"{kind}:{token}": at((*path, kind, i)) for kind, tokens in lists.items() for i, token in enumerate(tokens)
    }
    found |= {f"define:{macro}": at((*path, "define", macro)) for macro in spec.define}
    return found | {f"set:{flag}": at((*path, "set", flag)) for flag in spec.set}


def _check_naming(spec: RegistrySpec, problems: Problems) -> re.Pattern[str] | None:
    try:
        return re.compile(spec.naming) if spec.naming is not None else None
    except re.error as error:
        problems.add(("naming",), f"not a regular expression: {error}")
        return None


def _check_sources(spec: RegistrySpec, root: Path, problems: Problems, strict: bool) -> None:
    """One source is one kernel: two entries on a file would register the same names twice."""
    first: dict[Path, str] = {}
    for name, kernel in spec.kernels.items():
        where: KeyPath = ("kernels", name, "source")
        target = (root / kernel.source).resolve()
        other = first.setdefault(target, name)
        if other != name:
            problems.add(where, f"'{kernel.source}' is already the source of '{other}'")
        elif not target.is_relative_to(root.resolve()):
            problems.add(where, f"'{kernel.source}' is outside the project")
        elif strict and not target.is_file():
            known = [str(file.relative_to(root)) for file in sorted((root / "csrc").glob("**/*.cu"))]
            problems.add(where, f"no such file '{kernel.source}'", did_you_mean(kernel.source, known))


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
