"""The registry as frozen data: profiles, flags, kernels and their axes, and the variants they span."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from sparkctl.arch import Arch

AxisValue = int | str
FlagKind = Literal["runtime", "define", "nvcc", "ptxas", "host"]
FlagType = Literal["bool", "int", "str"]


@dataclass(frozen=True, slots=True)
class Location:
    """Where a value was written: prints as `flags.yaml:14`."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Range:
    """A closed range of whole numbers, written `1..64` or `0..`; `stop` None is unbounded."""

    start: int
    stop: int | None

    def __contains__(self, value: int) -> bool:
        return self.start <= value and (self.stop is None or value <= self.stop)

    def __str__(self) -> str:
        return f"{self.start}..{'' if self.stop is None else self.stop}"


@dataclass(frozen=True, slots=True)
class Profile:
    """A named set of compiler options; `extends` is already folded in."""

    name: str
    doc: str
    nvcc: tuple[str, ...]
    ptxas: tuple[str, ...]  # passed as one -Xptxas=a,b
    host: tuple[str, ...]  # g++ for the binding and the emulator
    define: Mapping[str, str]
    set: Mapping[str, str]  # flag values that the profile changes
    locations: Mapping[str, Location]  # "nvcc:0" (its first option), "set:fast_math", "define:X" -> line
    location: Location


@dataclass(frozen=True, slots=True)
class Flag:
    """Something that can be switched, with the reason it exists."""

    name: str
    kind: FlagKind
    type: FlagType
    default: str  # canonical text: "1", "0", "3", ""
    doc: str
    reason: str
    affects: tuple[str, ...]  # kernel globs; ("*",) reaches all
    accepts: tuple[str, ...] | Range | None  # None: whatever its type takes
    define: str | None  # kind define: the macro; its value is the flag's value
    options: Mapping[str, tuple[str, ...]]  # kinds nvcc, ptxas, host: value -> tokens; "*" is a template with {value}
    locations: Mapping[str, Location]  # key inside the entry -> line
    location: Location

    def reaches(self, kernel: str) -> bool:
        """Whether the kernel of this name is affected."""
        return any(fnmatchcase(kernel, glob) for glob in self.affects)


@dataclass(frozen=True, slots=True)
class Axis:
    """A compile-time parameter; becomes `-DSPARK_<NAME>=<value>`."""

    name: str
    values: tuple[AxisValue, ...]
    short: str  # prefix in variant names: d128, s2
    default: AxisValue | None  # left out of the variant's name when the value equals it
    location: Location


@dataclass(frozen=True, slots=True)
class Kernel:
    """A source-level kernel."""

    name: str
    family: str
    doc: str
    source: str  # relative to the project root
    min_arch: Arch
    axes: tuple[Axis, ...]
    require: tuple[str, ...]  # formulas over axes: a point where one is false is no variant
    block: str | None  # formula over axes: threads per block; None where nobody says
    dynamic_smem: str  # formula over axes: bytes
    accepts: Mapping[str, Range]
    cases: str | None  # the kernel whose test cases it takes; None: its own
    cases_file: Path | None  # where its own are written in Python, outside of sparkctl
    link: bool  # whether its objects are part of the library
    set: Mapping[str, str]  # flag values for this kernel
    arch_set: Mapping[str, Mapping[str, str]]  # arch name -> flag values
    nvcc: Mapping[str, tuple[str, ...]]  # arch name, or "*" -> extra tokens
    waivers: tuple[Mapping[str, str], ...]
    locations: Mapping[str, Location]  # key path inside the entry -> line
    location: Location


@dataclass(frozen=True, slots=True)
class Variant:
    """One point of a kernel's axes: the unit that is compiled, reported and tested.

    `name` is the kernel and its axes in order, defaults left out: `attn_decode_split_kv_mma.bf16.d128`.
    """

    kernel: Kernel
    values: tuple[tuple[str, AxisValue], ...]
    name: str
    block_threads: int | None  # None where flags.yaml has no block for its kernel
    dynamic_smem_bytes: int

    def value(self, axis: str) -> AxisValue:
        """The value on `axis`; KeyError if the kernel has no such axis."""
        return dict(self.values)[axis]


@dataclass(frozen=True, slots=True)
class Suite:
    """Benchmark cases with a name. Their texts are read by `sparkctl.bench.suites`."""

    name: str
    doc: str
    cases: tuple[str, ...]
    case_locations: tuple[Location, ...]
    location: Location


@dataclass(frozen=True, slots=True)
class Registry:
    """Everything flags.yaml says, after checks."""

    path: Path
    root: Path  # the project: the folder that holds flags.yaml
    naming: str | None
    archs: tuple[Arch, ...]  # what to build for where nothing else says; empty: this machine's GPUs, else sm_90
    emulator: bool  # kernels are written with the headers that come with sparkctl, so that its emulator runs them
    helpers: tuple[str, ...]  # sources without a kernel, compiled and linked into each library
    profiles: Mapping[str, Profile]
    flags: Mapping[str, Flag]
    kernels: Mapping[str, Kernel]
    suites: Mapping[str, Suite]


@dataclass(frozen=True, slots=True)
class FlagOrigin:
    """One step of a flag's chain, weakest first; the last one with `won` holds."""

    flag: str
    value: str
    source: str  # "default", "profile debug", "kernel", "arch sm_90", "environment", "--set", "api"
    location: Location | None
    won: bool


@dataclass(frozen=True, slots=True)
class OptionOrigin:
    """One compiler option and what put it there."""

    tool: str  # "nvcc", "ptxas", "host"
    token: str
    source: str  # "profile release", "kernel", "arch sm_90", "flag fast_math=1"
    location: Location | None


@dataclass(frozen=True, slots=True)
class ResolvedFlags:
    """What a variant is compiled with on one arch, and why."""

    nvcc: tuple[str, ...]
    ptxas: tuple[str, ...]
    host: tuple[str, ...]
    defines: Mapping[str, str]  # SPARK_* macros: flags, profile, axes, block, dynamic smem, accepts, name
    runtime: Mapping[str, str]
    values: Mapping[str, str]  # flag -> final value
    chain: tuple[FlagOrigin, ...]
    options: tuple[OptionOrigin, ...]  # nvcc, ptxas and host again, each with its source
