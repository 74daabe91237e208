"""What bench is asked for, and one call of what it plans. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sparkctl.bench.ab import Ab
from sparkctl.bench.axes import DecodeCase
from sparkctl.bench.call_options import PLAIN, CallOptions
from sparkctl.registry import Variant
from sparkctl.runtime import BuiltVariant


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """What was asked for. Without patterns the operator chooses the kernel of each case, as a program would get it."""

    cases: tuple[DecodeCase, ...]
    patterns: tuple[str, ...] = ()  # kernels, globs, variants
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)  # axes other than dtype and head_dim
    peers: tuple[str, ...] = ("sdpa",)
    budget_s: float = 3.0  # of sampling for each row
    profile: str = "release"
    sets: Mapping[str, str] = field(default_factory=dict)  # flags that the build reads
    flags: Mapping[str, str] = field(default_factory=dict)  # flags that are read at each call
    pages_given: bool = False  # else a kernel that takes pages only gets DEFAULT_PAGE_SIZE
    by_suite: bool = False  # the cases are those of suites
    ab: Ab | None = None
    vs: str | None = None  # as it was given; `ab` then holds the arms' names
    command: str = "sparkctl bench"


@dataclass(frozen=True, slots=True)
class PlannedArm:
    """One call of a case. Without a variant the operator chooses, among the variants of `kernel` that are built."""

    variant: str | None = None
    kernel: str = "auto"
    num_splits: int | None = None  # None: as the case says
    flags: Mapping[str, str] = field(default_factory=dict)
    options: CallOptions = PLAIN
    label: str = ""  # `stages=2`, where arms are compared


def described(variant: Variant) -> BuiltVariant:
    """A variant as the planner of the operators knows it, before it is built."""
    kernel = variant.kernel
    return BuiltVariant(
        name=variant.name,
        kernel=kernel.name,
        family=kernel.family,
        values=dict(variant.values),
        accepts={name: (span.start, span.stop) for name, span in kernel.accepts.items()},
        block_threads=variant.block_threads,
        dynamic_smem_bytes=variant.dynamic_smem_bytes,
        static_smem_bytes=None,
        registers=None,
        blocks_per_sm=None,
    )
