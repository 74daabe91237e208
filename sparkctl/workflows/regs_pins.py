"""The ratchet: reports that are pinned under benchmarks/regs, and what differs from them until it is pinned again."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from sparkctl.arch import Arch, parse_arch
from sparkctl.build.state import write_text
from sparkctl.errors import UsageError, WorkFailed
from sparkctl.registry import Registry, runs_on, span_variants
from sparkctl.registry.values import ENVIRONMENT_PREFIX, environment_values
from sparkctl.resources import Baseline, Change, Numbers, compare, decode_baseline, encode_baseline
from sparkctl.resources.change import Key
from sparkctl.workflows.regs_model import RegsReport

PINNED = "pinned"
FOLDER = Path("benchmarks") / "regs"
# What a waiver names -> the numbers that it covers; `new` and `gone` cover a variant's coming and going.
WAIVABLE: Mapping[str, tuple[str, ...]] = {
    "registers": ("registers",),
    "spills": ("spill_store_bytes", "spill_load_bytes", "stack_bytes"),
    "stack": ("stack_bytes",),
    "smem": ("static_smem_bytes", "dynamic_smem_bytes"),
    "barriers": ("barriers",),
    "occupancy": ("blocks_per_sm", "warps_per_sm"),
    "new": (),
    "gone": (),
}


@dataclass(frozen=True, slots=True)
class Waiver:
    """A difference that is accepted until a day."""

    kernel: str
    variant: str  # a name or a glob
    what: str  # a key of WAIVABLE
    arch: str | None
    reason: str
    expires: datetime.date
    place: str  # flags.yaml:14

    def covers(self, change: Change) -> frozenset[str]:
        """The numbers of the change that it accepts; its verdict for `new` and `gone`."""
        of_kernel = change.name.split(" ")[0].partition(".")[0] == self.kernel
        if not of_kernel or not fnmatchcase(change.name, self.variant) or self.arch not in (None, change.arch):
            return frozenset()
        if change.verdict in ("new", "gone"):
            return frozenset({self.what} & {change.verdict})
        return frozenset(WAIVABLE[self.what]) & {difference.field for difference in change.differences}


@dataclass(frozen=True, slots=True)
class Judged:
    """A difference from what is pinned, and the waiver that covers all of it, if one does."""

    change: Change
    waivers: tuple[Waiver, ...] = ()
    expired: tuple[Waiver, ...] = ()  # that would have covered it

    @property
    def waived(self) -> bool:
        return bool(self.waivers)


@dataclass(frozen=True, slots=True)
class PinCheck:
    """The outcome of `--check`."""

    report: RegsReport
    differences: tuple[Judged, ...]
    unused: tuple[Waiver, ...]  # waivers that cover nothing any more
    compared: int  # kernels, one for each arch
    update: str  # the command that pins what was looked at

    @property
    def failures(self) -> tuple[Judged, ...]:
        return tuple(judged for judged in self.differences if not judged.waived)

    @property
    def passed(self) -> bool:
        return not self.failures and not self.unused


def check_pins(
    registry: Registry,
    report: RegsReport,
    numbers: Mapping[Key, Numbers],
    *,
    selection: Sequence[str],
    today: datetime.date,
    environ: Mapping[str, str],
) -> PinCheck:
    """`selection`: the words that chose variants; with none, what is pinned and not there is gone.

    UsageError where an arch has no pins for this compiler, or the report is of other flags than flags.yaml's.
    """
    refuse_other_flags(registry, report, "--check", environ)
    whole, update = not selection, update_command(report, selection)
    pins, notes = read_pins(registry, report)
    if notes:
        raise UsageError(notes[0], hint=update)
    kernels = {row.kernel for row in report.rows}
    expected = {key: old for key, old in pins.items() if key in numbers or is_gone(registry, key, kernels, whole=whole)}
    waivers = waivers_of(registry)
    judged = [judge(change, waivers, today) for change in compare(expected, numbers) if change.verdict != "same"]
    used = {waiver for waiver in waivers if any(waiver.covers(one.change) for one in judged)}
    archs = {arch.name for arch in report.archs}
    unused = [w for w in waivers if whole and w not in used and _could_have_covered(registry, w, archs)]
    return PinCheck(report, tuple(judged), tuple(unused), len(numbers), update)


def judge(change: Change, waivers: Iterable[Waiver], today: datetime.date) -> Judged:
    """Waived where what the living waivers cover is all of the change."""
    covering = [(waiver, waiver.covers(change)) for waiver in waivers]
    covering = [(waiver, fields) for waiver, fields in covering if fields]
    living = [(waiver, fields) for waiver, fields in covering if waiver.expires >= today]
    needed = {change.verdict} if change.verdict in ("new", "gone") else {d.field for d in change.differences}
    expired = tuple(waiver for waiver, _ in covering if waiver.expires < today)
    if living and needed <= frozenset().union(*(fields for _, fields in living)):
        return Judged(change, tuple(waiver for waiver, _ in living), expired)
    return Judged(change, (), expired)


def update_pins(
    registry: Registry,
    report: RegsReport,
    numbers: Mapping[Key, Numbers],
    *,
    selection: Sequence[str],
    environ: Mapping[str, str],
) -> tuple[Path, ...]:
    """Pin the report: its variants are replaced, those that are gone dropped, others and other compilers kept.

    Each file is written whole or not at all; returns those that changed.
    """
    refuse_other_flags(registry, report, "--update", environ)
    whole = not selection
    kernels = {row.kernel for row in report.rows}
    changed = []
    for arch in report.archs:
        path = pin_path(registry, arch)
        baseline = _read(path, arch)
        kept = {
            name: old
            for name, old in baseline.compilers.get(report.compiler, {}).items()
            if not is_gone(registry, (name, arch.name), kernels, whole=whole)
        }
        fresh = {name: new for (name, of), new in numbers.items() if of == arch.name}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if write_text(path, encode_baseline(baseline.with_pins(report.compiler, {**kept, **fresh}))):
                changed.append(path)
        except OSError as error:
            raise WorkFailed(f"{path}: {error.strerror}", hint="pins lie in the project, beside its sources") from error
    return tuple(changed)


def read_pins(registry: Registry, report: RegsReport) -> tuple[dict[Key, Numbers], tuple[str, ...]]:
    """The pins of the report's archs and compiler, and what is not there, in words."""
    found, notes = dict[Key, Numbers](), list[str]()
    for arch in report.archs:
        path = pin_path(registry, arch)
        compilers = _read(path, arch).compilers
        shown = FOLDER / path.name
        if report.compiler in compilers:
            found |= {(name, arch.name): numbers for name, numbers in compilers[report.compiler].items()}
        elif compilers:
            notes.append(f"{shown} pins {' and '.join(sorted(compilers))}, and this is {report.compiler}")
        else:
            notes.append(f"{shown}: nothing is pinned for {arch.name}")
    return found, tuple(notes)


def is_gone(registry: Registry, key: Key, kernels: set[str], *, whole: bool) -> bool:
    """Whether what is pinned is no variant for its arch any more; without `whole`, of `kernels` alone."""
    name, arch = key[0].split(" ")[0], parse_arch(key[1])
    kernel = registry.kernels.get(name.partition(".")[0])
    if not whole and name.partition(".")[0] not in kernels:
        return False
    return kernel is None or not any(v.name == name and runs_on(v, arch) for v in span_variants(kernel))


def waivers_of(registry: Registry) -> tuple[Waiver, ...]:
    """All of flags.yaml."""
    found = []
    for kernel in registry.kernels.values():
        for index, entry in enumerate(kernel.waivers):
            place = str(kernel.locations.get(f"waivers.{index}", kernel.location))
            expires = datetime.date.fromisoformat(entry["expires"])
            found.append(
                Waiver(kernel.name, entry["variant"], entry["what"], entry.get("arch"), entry["reason"], expires, place)
            )
    return tuple(found)


def refuse_other_flags(registry: Registry, report: RegsReport, option: str, environ: Mapping[str, str]) -> None:
    """Pins are of what flags.yaml says. Flags that are read at each call change no build."""
    for name in environment_values(registry, environ):
        if registry.flags[name].kind in ("nvcc", "ptxas", "define"):
            raise UsageError(
                f"{option}: {ENVIRONMENT_PREFIX}{name.upper()} is set, and pins are of what flags.yaml says",
                hint=f"unset {ENVIRONMENT_PREFIX}{name.upper()}; --save NAME keeps any report",
            )
    if report.profile != "release" or report.sets:
        raise UsageError(
            f"{option}: pins are of the release profile as flags.yaml has it",
            hint="leave out --profile and --set; --save NAME keeps any report",
        )


def update_command(report: RegsReport, selection: Sequence[str] = ()) -> str:
    """What pins the report and no more, for a shell."""
    archs = ",".join(arch.name for arch in report.archs)
    return shlex.join(["sparkctl", "regs", *selection, "--arch", archs, "--update"])


def pin_path(registry: Registry, arch: Arch) -> Path:
    return registry.root / FOLDER / f"{arch.name}.json"


def _could_have_covered(registry: Registry, waiver: Waiver, archs: set[str]) -> bool:
    """One for every arch is unused only where every pinned arch was looked at."""
    if waiver.arch is not None:
        return waiver.arch in archs
    return {path.stem for path in (registry.root / FOLDER).glob("*.json")} <= archs


def _read(path: Path, arch: Arch) -> Baseline:
    if not path.exists():
        return Baseline(arch.name)
    try:
        return decode_baseline(path.read_text(encoding="utf-8", errors="replace"), str(path))
    except OSError as error:
        raise WorkFailed(f"{path}: {error.strerror}", hint="git restore it") from error
