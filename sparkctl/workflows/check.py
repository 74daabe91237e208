"""What is wrong with a registry beyond its grammar: dead, duplicate and conflicting entries, sources, names, cases."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from sparkctl.arch import KNOWN_ARCHS
from sparkctl.bench.suites import wrong_cases
from sparkctl.ops.flags import AXIS_OF_FLAG
from sparkctl.registry import Kernel, Location, OptionOrigin, Registry, resolve_flags, runs_on, span_variants
from sparkctl.registry.naming import Naming
from sparkctl.registry.suggest import did_you_mean, nearest
from sparkctl.registry.tree import find_files
from sparkctl.workflows.init_model import FAMILY
from sparkctl.workflows.regs_pins import waivers_of

MAX_VARIANTS = 250  # per arch, over all kernels: about five minutes on one core
RUN_TIME_NAMES = (
    "group",
    "qo_len",
    "kv_len",
    "num_splits",
    "num_states",
    "page_size",
    "bytes",
)  # of operators and test cases
SOURCE_SUFFIXES = (".cu", ".cuh", ".h", ".hpp", ".cpp")
REPEATABLE = ("-Xcompiler", "-Xptxas", "-Xlinker", "-I", "-L", "-l", "-include", "-isystem", "--diag-suppress")
SET_BY_BUILD = ("-c", "-o", "-x", "-arch", "--gpu-architecture", "-gencode", "--generate-code", "-MD", "-MF", "-shared")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to mend. `rule` is stable, for scripts; `location` None means the whole project."""

    rule: str
    location: Location | None
    what: str
    hint: str | None = None


def check_registry(
    registry: Registry, kernels_with_cases: Collection[str], today: datetime.date | None = None
) -> tuple[Finding, ...]:
    """All findings, in the order of the file; `kernels_with_cases` names those that the tests know."""
    sources = read_sources(registry.root)
    found = [
        *_check_names(registry),
        *_check_entries_have_sources(registry),
        *_check_sources_have_entries(registry, sources),
        *_check_cases(registry, kernels_with_cases),
        *_check_flags_do_something(registry, sources),
        *_check_axes_do_something(registry, sources),
        *_check_ranges_do_something(registry, sources),
        *_check_options(registry),
        *_check_variant_count(registry),
        *_check_waivers(registry, today or datetime.date.today()),
        *_check_suites(registry),
    ]
    return tuple(sorted(dict.fromkeys(found), key=lambda finding: finding.location.line if finding.location else 0))


RULES: Mapping[str, str] = {
    "name": "every kernel's name matches the naming pattern",
    "source": "every entry has its source",
    "entry": "every source has its entry",
    "cases": "every kernel has test cases",
    "unused-flag": "every flag changes something",
    "unused-axis": "every axis is read by a source",
    "unused-range": "every accepted range is read by an operator or a source",
    "option": "no option is doubled, contradicted or the build's own",
    "variants": f"at most {MAX_VARIANTS} variants per arch",
    "waiver": "every waiver is of a variant that is there, and has not expired",
    "suite": "every case of a suite can be read",
}


def _check_suites(registry: Registry) -> Iterator[Finding]:
    for suite in registry.suites.values():
        for problem in wrong_cases(suite):
            yield Finding("suite", problem.location, f"suite '{suite.name}': {problem.what}", problem.hint)


def _check_waivers(registry: Registry, today: datetime.date) -> Iterator[Finding]:
    for waiver in waivers_of(registry):
        kernel = registry.kernels[waiver.kernel]
        where = next((place for place in kernel.locations.values() if str(place) == waiver.place), kernel.location)
        names = [variant.name for variant in span_variants(kernel)]
        if waiver.what != "gone" and not any(fnmatchcase(name, waiver.variant) for name in names):
            yield Finding("waiver", where, f"no variant of {kernel.name} is {waiver.variant}", f"such as {names[0]}")
        if waiver.expires < today:
            hint = "sparkctl regs --check says what it covered; pin it with --update, or give it another day"
            yield Finding("waiver", where, f"the waiver of {waiver.variant} expired on {waiver.expires}", hint)


def read_sources(root: Path) -> dict[str, str]:
    """The text of every C++ and CUDA file under csrc/, or of the whole project where it has no such folder."""
    folder = root / "csrc"
    files = [root / name for name in find_files(root)] if not folder.is_dir() else sorted(folder.rglob("*"))
    files = [path for path in files if path.suffix in SOURCE_SUFFIXES and path.is_file()]
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8", errors="replace") for path in files}


def _check_names(registry: Registry) -> Iterator[Finding]:
    naming = Naming(registry.naming) if registry.naming is not None else None
    for kernel in registry.kernels.values():
        if naming is not None and not naming.matches(kernel.name):
            yield Finding(
                "name",
                kernel.location,
                f"kernel '{kernel.name}' does not match the naming pattern",
                f"naming: '{registry.naming}'",
            )


def _check_entries_have_sources(registry: Registry) -> Iterator[Finding]:
    for kernel in registry.kernels.values():
        if not (registry.root / kernel.source).is_file():
            where = kernel.locations.get("source", kernel.location)
            yield Finding("source", where, f"kernel '{kernel.name}': no such file '{kernel.source}'")


def _check_sources_have_entries(registry: Registry, sources: Mapping[str, str]) -> Iterator[Finding]:
    names = [*(kernel.source for kernel in registry.kernels.values()), *registry.helpers]
    entered = {(registry.root / name).resolve() for name in names}
    for source in sources:
        if source.endswith(".cu") and (registry.root / source).resolve() not in entered:
            hint = "add an entry under kernels, list it under helpers, or remove it"
            yield Finding("entry", None, f"{source} belongs to no kernel", hint)


def _check_cases(registry: Registry, kernels_with_cases: Collection[str]) -> Iterator[Finding]:
    for kernel in registry.kernels.values():
        if kernel.cases_file is not None or (kernel.cases or kernel.name) in kernels_with_cases:
            continue
        if kernel.family == FAMILY:  # somebody's own, which sparkctl cannot call unless they say how
            continue
        yield Finding("cases", kernel.location, f"kernel '{kernel.name}' has no test cases")


def _check_flags_do_something(registry: Registry, sources: Mapping[str, str]) -> Iterator[Finding]:
    for flag in registry.flags.values():
        if not any(flag.reaches(kernel) for kernel in registry.kernels):
            yield Finding("unused-flag", flag.location, f"flag '{flag.name}' affects no kernel")
        elif flag.kind == "define" and flag.define and not _mentions(sources, flag.define):
            what = f"flag '{flag.name}': no source mentions {flag.define}"
            yield Finding("unused-flag", flag.location, what, _nearest_macro(sources, flag.define))
        elif flag.kind == "runtime" and flag.name not in AXIS_OF_FLAG:
            what = f"flag '{flag.name}': no operator reads it"
            yield Finding("unused-flag", flag.location, what, "known to sparkctl.ops: " + ", ".join(AXIS_OF_FLAG))
        elif flag.options and "*" not in flag.options and len(set(flag.options.values())) == 1:
            yield Finding("unused-flag", flag.location, f"flag '{flag.name}': every value gives the same options")


def _check_axes_do_something(registry: Registry, sources: Mapping[str, str]) -> Iterator[Finding]:
    for kernel in registry.kernels.values():
        for axis in kernel.axes:
            macro = f"SPARK_{axis.name.upper()}"
            if not _mentions(sources, macro):
                what = f"kernel '{kernel.name}': no source mentions {macro} of axis '{axis.name}'"
                yield Finding("unused-axis", axis.location, what, _nearest_macro(sources, macro))


def _check_ranges_do_something(registry: Registry, sources: Mapping[str, str]) -> Iterator[Finding]:
    """Other names than the operators' are a project's own: its sources read them."""
    for kernel in registry.kernels.values():
        for name in kernel.accepts:
            macro = f"SPARK_ACCEPTS_{name.upper()}"
            if name not in RUN_TIME_NAMES and not any(_mentions(sources, macro + end) for end in ("_MIN", "_MAX")):
                where = kernel.locations.get(f"accepts.{name}", kernel.location)
                what = f"kernel '{kernel.name}': no operator knows '{name}', no source mentions {macro}_MIN or _MAX"
                yield Finding("unused-range", where, what, did_you_mean(name, RUN_TIME_NAMES))


def _check_options(registry: Registry) -> Iterator[Finding]:
    """Tries every profile on one variant of each kernel, without archs and with each arch that the file names."""
    for profile in registry.profiles.values():
        for kernel in registry.kernels.values():
            yield from _check_options_of(registry, kernel, profile.name)


def _check_options_of(registry: Registry, kernel: Kernel, profile: str) -> Iterator[Finding]:
    variant = span_variants(kernel)[0]
    for arch in [None, *KNOWN_ARCHS]:
        resolved = resolve_flags(registry, variant, arch=arch, profile=profile, sets={}, environ={})
        first: dict[tuple[str, str], OptionOrigin] = {}
        for option in resolved.options:
            name = _option_name(option.token)
            where = option.location
            if option.tool != "ptxas" and name in SET_BY_BUILD:
                yield Finding("option", where, f"{option.tool} option '{option.token}' is set by the build itself")
            if name is None or name in REPEATABLE:
                continue
            earlier = first.setdefault((option.tool, name), option)
            if earlier is not option:
                how = "is given twice" if earlier.token == option.token else f"contradicts '{earlier.token}'"
                hint = f"first in {earlier.location}"
                yield Finding("option", where, f"{option.tool} option '{option.token}' {how}", hint)


def _option_name(token: str) -> str | None:
    """What an option sets: `-O3` and `-O2` are both -O, `-DX=1` is -DX, `--fmad=false` is --fmad; None for a value."""
    if not token.startswith("-"):
        return None
    if re.fullmatch(r"-O[0-9sgz]|-Ofast", token):
        return "-O"
    for name in REPEATABLE:
        if token.startswith(name) and (len(name) > 2 or token != name):
            return name
    return token.partition("=")[0]


def _check_variant_count(registry: Registry) -> Iterator[Finding]:
    variants = [variant for kernel in registry.kernels.values() for variant in span_variants(kernel)]
    for arch in KNOWN_ARCHS:
        count = sum(runs_on(variant, arch) for variant in variants)
        if count > MAX_VARIANTS:
            what = f"{count} variants on {arch.name}, more than {MAX_VARIANTS}"
            yield Finding("variants", None, what, "fewer axis values, a require formula, or a run-time argument")
            return


def _mentions(sources: Mapping[str, str], macro: str) -> bool:
    return any(map(_word(macro), sources.values()))


def _word(macro: str) -> Callable[[str], object]:
    return re.compile(rf"\b{re.escape(macro)}\b").search


def _nearest_macro(sources: Mapping[str, str], macro: str) -> str | None:
    return nearest(macro, sorted({word for text in sources.values() for word in re.findall(r"\bSPARK_\w+", text)}))
