"""Parses `cuobjdump --dump-resource-usage`: what the object itself holds, the cross-check of the compiler's log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sparkctl.arch import limits_for, parse_arch
from sparkctl.errors import WorkFailed
from sparkctl.resources.demangle import demangle
from sparkctl.resources.model import ResourceUsage

_ARCH = re.compile(r"^arch = (?P<arch>sm_\w+)$")
_FUNCTION = re.compile(r"^Function (?P<name>\S+):$")
_NUMBERS = re.compile(r"^REG:(?P<registers>\d+) STACK:(?P<stack>\d+) SHARED:(?P<shared>\d+) ")


@dataclass(frozen=True, slots=True)
class ObjectUsage:
    """One function of an object. Spills and barriers are not recorded there."""

    function: str
    arch: str
    registers: int
    stack_bytes: int
    static_smem_bytes: int  # without the reserved bytes that SHARED includes on CC 9.0 and up


def parse_resource_usage(text: str) -> tuple[ObjectUsage, ...]:
    """Every function of every arch in the object. WorkFailed for a listing that ends early or is none."""
    usages: list[ObjectUsage] = []
    arch = function = None
    for line in (line.strip() for line in text.splitlines()):
        if match := _ARCH.match(line):
            arch = match["arch"]
        elif match := _FUNCTION.match(line):
            function = match["name"]
        elif (match := _NUMBERS.match(line)) and arch and function:
            smem = max(0, int(match["shared"]) - _reserved_bytes(arch))  # relocatable code has neither yet
            usages.append(ObjectUsage(function, arch, int(match["registers"]), int(match["stack"]), smem))
            function = None
    if function is not None or "Resource usage:" not in text:
        raise WorkFailed("cuobjdump printed no whole resource usage", hint="is the object built, and for a GPU?")
    return tuple(usages)


def object_usages(objects: Sequence[ObjectUsage]) -> tuple[ResourceUsage, ...]:
    """As a log would have them, without what no object records: spills and barriers.

    Device functions of relocatable code stand among the kernels: an object does not tell them apart.
    """
    return tuple(
        ResourceUsage(
            function=usage.function,
            demangled=demangle(usage.function),
            arch=usage.arch,
            kind="entry",
            registers=usage.registers,
            spill_store_bytes=None,
            spill_load_bytes=None,
            stack_bytes=usage.stack_bytes,
            cumulative_stack_bytes=None,
            static_smem_bytes=usage.static_smem_bytes,
            barriers=None,
            constant_bytes=None,
        )
        for usage in objects
    )


def compare_with_object(log: Sequence[ResourceUsage], objects: Sequence[ObjectUsage]) -> tuple[str, ...]:
    """Every disagreement between a log's entries and the object's functions, as sentences; none when they agree."""
    held = {(usage.function, usage.arch): usage for usage in objects}
    differences = []
    for usage in log:
        found = held.pop((usage.function, usage.arch or ""), None)
        if not usage.is_entry:
            continue
        where = f"{usage.demangled} for {usage.arch}"
        if found is None:
            differences.append(f"{where}: not in the object")
            continue
        for what, ours, theirs in (
            ("registers", usage.registers, found.registers),
            ("bytes of static smem", usage.static_smem_bytes, found.static_smem_bytes),
        ):
            if ours is not None and ours != theirs:
                differences.append(f"{where}: {ours} {what} in the log, {theirs} in the object")
    archs = {usage.arch for usage in log}
    differences += [f"{function} for {arch}: not in the log" for function, arch in held if arch in archs]
    return tuple(differences)


def _reserved_bytes(arch: str) -> int:
    """SHARED counts the block's reserved KiB from CC 9.0 on: 16 on sm_89 is 1040 on sm_90 for the same kernel."""
    number = re.match(r"sm_(\d+)\d", arch)
    return limits_for(parse_arch(arch)).smem_reserved_per_block if number and int(number[1]) >= 9 else 0
