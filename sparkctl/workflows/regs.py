"""The register report: build what is missing, read each variant's compiler log, work out its occupancy."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from sparkctl.arch import Arch, limits_for
from sparkctl.build import Progress, plan_build, raise_failures, run_build
from sparkctl.build.helpers import is_relocatable
from sparkctl.errors import MissingTool, UsageError, WorkFailed
from sparkctl.registry import Registry, Variant, runs_on, select_variants
from sparkctl.resources import compare_with_object, parse_ptxas, parse_resource_usage
from sparkctl.toolchain import Toolchain, run_tool
from sparkctl.workflows.regs_inputs import relocatable
from sparkctl.workflows.regs_model import KernelReport, LeftOut, RegsReport, report_kernel, subject_of
from sparkctl.workflows.tested import LastTest, LastTests


def report_regs(
    registry: Registry,
    patterns: Sequence[str],
    *,
    archs: Sequence[Arch],
    where: Mapping[str, Sequence[str]] | None = None,
    profile: str = "release",
    sets: Mapping[str, str] | None = None,
    toolchain: Toolchain,
    environ: Mapping[str, str] = os.environ,
    build_root: Path | None = None,
    progress: Progress | None = None,
) -> RegsReport:
    """Reports on every selected variant that runs on some of `archs`; compiles only what is missing or out of date.

    Raises MissingTool without nvcc, UsageError when nothing selected runs on any arch, WorkFailed for a failed build.
    """
    selected = select_variants(registry, patterns, where=where)
    wanted = {arch: [variant for variant in selected if runs_on(variant, arch)] for arch in archs}
    if not any(wanted.values()):
        select_variants(registry, patterns, arch=archs[0], where=where)  # raises, and says why
        raise UsageError("no archs given")
    nvcc = toolchain.require_nvcc()
    plans = [
        plan_build(
            registry,
            variants,
            arch=arch,
            backend="cuda",
            profile=profile,
            sets=sets,
            toolchain=toolchain,
            environ=environ,
            build_root=build_root,
        )
        for arch, variants in wanted.items()
        if variants
    ]
    raise_failures(run_build(plans, progress=progress))
    folders = {plan.arch: plan.folder for plan in plans}
    runs = {arch: {variant.name for variant in variants} for arch, variants in wanted.items()}
    open_ended = {plan.arch: {e.name for e in plan.edges if is_relocatable(e.argv)} for plan in plans}
    tests = LastTests(registry, environ)
    return RegsReport(
        compiler=f"nvcc {nvcc.version}",
        profile=profile,
        sets=dict(sets or {}),
        archs=tuple(wanted),
        rows=tuple(
            row
            for variant in selected
            for arch, folder in folders.items()
            if variant.name in runs[arch]
            for row in read_variant(
                folder,
                variant,
                arch,
                tests.of(variant.name, arch, profile, sets or {}),
                open_ended=variant.name in open_ended[arch],
            )
        ),
        left_out=tuple(
            LeftOut(variant, arch, why_left_out(variant, arch))
            for variant in selected
            for arch in wanted
            if variant.name not in runs[arch]
        ),
    )


def read_variant(
    folder: Path, variant: Variant, arch: Arch, tested: LastTest | None = None, *, open_ended: bool = False
) -> tuple[KernelReport, ...]:
    """The report of one built variant: one row per entry function of its log. WorkFailed names an unusable log.

    `open_ended`: compiled with -rdc, so that the device linker decides on shared memory.
    """
    path = folder / "obj" / f"{variant.name}.ptxas"
    try:
        usages = parse_ptxas(path.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        raise WorkFailed(f"{path}: {error.strerror}", hint="sparkctl build writes it again") from error
    except WorkFailed as error:
        raise WorkFailed(f"{path}: {error.message}", hint=error.hint) from error
    usages = tuple(usage for usage in usages if usage.arch in (arch.name, None))
    if open_ended:
        usages = tuple(relocatable(usage) for usage in usages)
    entries = [usage for usage in usages if usage.is_entry]
    if not entries:
        hint = f"does {variant.kernel.source} hold a kernel? one without is listed under helpers"
        raise WorkFailed(f"{path}: no kernel for {arch.name} in it", hint=hint)
    calls = tuple(usage for usage in usages if not usage.is_entry)
    return tuple(
        report_kernel(subject_of(variant, tested, entry if len(entries) > 1 else None), arch, entry, calls, path)
        for entry in entries
    )


def verify_with_objects(report: RegsReport, toolchain: Toolchain) -> tuple[str, ...]:
    """Every disagreement between the report and what cuobjdump finds in the objects; MissingTool without cuobjdump."""
    if toolchain.cuobjdump is None:
        raise MissingTool("no cuobjdump", hint="pip install 'sparkctl[toolchain]'")
    differences: list[str] = []
    for log in dict.fromkeys(row.log for row in report.rows):
        listing = run_tool([str(toolchain.cuobjdump), "--dump-resource-usage", str(log.with_suffix(".o"))])
        said = [row.usage for row in report.rows if row.log == log]
        said += next(list(row.calls) for row in report.rows if row.log == log)
        differences += compare_with_object(said, parse_resource_usage(listing.stdout))
    return tuple(differences)


def why_left_out(variant: Variant, arch: Arch) -> str:
    """Of a variant that the arch cannot run."""
    if not arch.supports(variant.kernel.min_arch):
        return f"needs {variant.kernel.min_arch}"
    most = limits_for(arch).smem_per_block_optin
    return f"needs {variant.dynamic_smem_bytes} bytes of dynamic shared memory, a block has at most {most}"
