"""What stands beside a linked library: its manifest, the compile commands, and a check of what it holds."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from sparkctl.arch import Arch
from sparkctl.build.model import BuildPlan, Edge
from sparkctl.build.state import EdgeRecord, write_text
from sparkctl.errors import WorkFailed
from sparkctl.registry import Range, Registry, Variant, resolve_flags, span_variants
from sparkctl.resources import ResourceUsage, occupancy, parse_ptxas
from sparkctl.runtime.manifest import BuiltVariant, Manifest, RuntimeFlag, write_manifest
from sparkctl.toolchain import run_tool

COMPILE_COMMANDS = "compile_commands.json"


def contents_digest(plan: BuildPlan, records: Mapping[str, EdgeRecord]) -> str:
    """Over the library's objects (command, compiler, inputs), its link, and the flags that are read at each call."""
    parts = [[name, r.argv, r.compiler, sorted(r.inputs.items())] for name, r in sorted(records.items())]
    flags = [asdict(flag) for flag in runtime_flags_of(plan.registry, plan.arch, plan.profile)]  # in the manifest
    text = json.dumps([parts, plan.links[0].argv, flags])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def save_manifest(plan: BuildPlan, edges: Iterable[Edge], digest: str) -> None:
    """Describe the library; registers and blocks per SM come from the ptxas logs."""
    variants = tuple(_describe(plan, edge, edge.variant) for edge in edges if edge.variant)
    write_manifest(
        plan.folder,
        Manifest(
            library=Path(plan.library).name,
            backend=plan.backend,
            arch=plan.arch.name,
            profile=plan.profile,
            flags=dict(plan.sets),
            digest=digest,
            compiler=plan.compiler,
            variants=tuple(sorted(variants, key=lambda variant: variant.name)),
            runtime_flags=runtime_flags_of(plan.registry, plan.arch, plan.profile),
        ),
    )


def runtime_flags_of(registry: Registry, arch: Arch, profile: str) -> tuple[RuntimeFlag, ...]:
    """Flags of kind runtime with their value for each kernel, weaker than environment, --set and API."""
    first = {name: span_variants(kernel)[0] for name, kernel in registry.kernels.items()}
    resolved = {
        name: resolve_flags(registry, variant, arch=arch, profile=profile, sets={}, environ={})
        for name, variant in first.items()
    }
    return tuple(
        RuntimeFlag(
            name=flag.name,
            type=flag.type,
            accepts=flag.accepts if isinstance(flag.accepts, tuple) else None,
            span=(flag.accepts.start, flag.accepts.stop) if isinstance(flag.accepts, Range) else None,
            kernels={name: values.runtime[flag.name] for name, values in resolved.items() if flag.reaches(name)},
        )
        for flag in registry.flags.values()
        if flag.kind == "runtime"
    )


def save_compile_commands(plan: BuildPlan) -> None:
    """For clangd: one entry per edge that the last build knew, selected or not, in the build root."""
    entries = [
        {"directory": str(plan.root), "file": edge.source, "output": edge.output, "arguments": list(edge.argv)}
        for edge in sorted((*plan.edges, *plan.spare.values()), key=lambda edge: edge.name)
    ]
    write_text(plan.build_root / COMPILE_COMMANDS, json.dumps(entries, indent=1) + "\n")


def verify_archs(plan: BuildPlan) -> None:
    """WorkFailed if the library's device code is for other archs than was asked; needs cuobjdump."""
    if plan.backend != "cuda" or plan.toolchain.cuobjdump is None:
        return
    library = plan.root / plan.library
    listing = run_tool([plan.toolchain.cuobjdump, "--list-elf", library], timeout=60, check=False)
    found = set(re.findall(r"\.(sm_\d+[af]?)\.cubin", listing.stdout))
    if found and found != {plan.arch.name}:
        raise WorkFailed(
            f"{plan.library} holds code for {', '.join(sorted(found))}, asked was {plan.arch.name}",
            hint="a flag adds or replaces -gencode: see sparkctl flags explain",
        )


def _describe(plan: BuildPlan, edge: Edge, variant: Variant) -> BuiltVariant:
    usage = _main_entry(plan.root / edge.log) if edge.log else None
    blocks = None
    if usage and usage.registers is not None and variant.block_threads is not None and not usage.relocatable:
        blocks = occupancy(
            plan.arch,
            threads=variant.block_threads,
            registers=usage.registers,
            static_smem=usage.static_smem_bytes or 0,
            dynamic_smem=variant.dynamic_smem_bytes,
            barriers=usage.barriers or 0,
        ).blocks_per_sm
    return BuiltVariant(
        name=variant.name,
        kernel=variant.kernel.name,
        family=variant.kernel.family,
        values=dict(variant.values),
        accepts={name: (accepted.start, accepted.stop) for name, accepted in variant.kernel.accepts.items()},
        block_threads=variant.block_threads,
        dynamic_smem_bytes=variant.dynamic_smem_bytes,
        static_smem_bytes=usage.static_smem_bytes if usage else None,
        registers=usage.registers if usage else None,
        blocks_per_sm=blocks,
    )


def _main_entry(log: Path) -> ResourceUsage | None:
    """The entry function with the most registers: a translation unit holds one kernel, some a small helper too."""
    entries = [usage for usage in parse_ptxas(log.read_text(encoding="utf-8", errors="replace")) if usage.is_entry]
    return max(entries, key=lambda usage: usage.registers or 0, default=None)
