"""docs/reference/flags.md and archs.md: what flags.yaml and sparkctl/arch/limits.py say, as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from markdown_text import cell, code, table

from sparkctl.arch import KNOWN_ARCHS, limits_for
from sparkctl.registry import Flag, Kernel, Profile, Range, Registry, Suite, runs_on, span_variants

FLAGS_OPENING = """# Flags, kernels, suites

What flags.yaml says, as tables. [registry.md](../registry.md) describes the file, `sparkctl flags explain KERNEL` says
where each value of a kernel comes from."""

ARCHS_OPENING = """# Archs

What one SM of each compute capability holds. Registers, threads of a block and granularities are the same on all of
them; [explanation/occupancy.md](../explanation/occupancy.md) says how the numbers decide how many blocks fit."""


def flags_page(registry: Registry) -> str:
    blocks = [FLAGS_OPENING, "## Profiles", _profiles(registry), "## Flags", _flag_list(registry)]
    for flag in registry.flags.values():
        blocks += _flag(flag)
    blocks += ["## Kernels", _kernel_list(registry)]
    for kernel in registry.kernels.values():
        blocks += _kernel(kernel)
    blocks += ["## Suites", _suites(registry.suites)]
    return "\n\n".join(blocks)


def archs_page() -> str:
    rows = []
    for arch in KNOWN_ARCHS:
        row = limits_for(arch)
        barriers = "not limited" if row.barriers_per_sm is None else str(row.barriers_per_sm)
        sizes = [row.threads_per_sm, row.warps_per_sm, row.blocks_per_sm]
        sizes += [row.smem_per_sm // 1024, row.smem_per_block_optin // 1024]
        cc = f"{arch.major}.{arch.minor}"
        rows.append([code(arch.name), cc, *(str(size) for size in sizes), barriers, cell(row.source)])
    numbers = ["threads", "warps", "blocks", "smem KiB", "smem per block KiB", "barriers"]
    per_sm = table(["arch", "CC", *numbers, "source"], rows, right=numbers)
    return "\n\n".join([ARCHS_OPENING, "## Limits per SM", per_sm, "## The same on all", _common()])


def _common() -> str:
    row = limits_for(KNOWN_ARCHS[0])
    rows = [
        ["registers of an SM, and of a block at most", f"{row.registers_per_sm:,}"],
        ["sub-partitions of an SM", str(row.sub_partitions)],
        ["registers of a thread at most", str(row.registers_per_thread)],
        ["registers are given to a warp in units of", str(row.register_granularity)],
        ["threads of a block at most", str(row.threads_per_block)],
        ["shared memory of a block without opt-in", f"{row.smem_per_block_static:,} B"],
        ["shared memory reserved per block", f"{row.smem_reserved_per_block:,} B"],
        ["shared memory is given in units of", f"{row.smem_granularity} B"],
    ]
    return table(["what", "size"], rows, right=["size"])


def _profiles(registry: Registry) -> str:
    return table(["profile", "when", "nvcc", "ptxas", "host", "sets"], [*map(_profile, registry.profiles.values())])


def _profile(profile: Profile) -> list[str]:
    sets = [*(f"{name}={value}" for name, value in profile.set.items())]
    sets += [f"{name}={value}" for name, value in profile.define.items()]
    options = [" ".join(code(word) for word in words) for words in (profile.nvcc, profile.ptxas, profile.host)]
    return [code(profile.name), cell(profile.doc), *options, " ".join(code(text) for text in sets)]


def _flag_list(registry: Registry) -> str:
    rows = [[f"[{flag.name}](#{flag.name.lower()})", flag.kind, cell(flag.doc)] for flag in registry.flags.values()]
    return table(["flag", "kind", "does"], rows)


def _flag(flag: Flag) -> Iterator[str]:
    yield f"### {flag.name}"
    yield f"{cell(flag.doc)} {cell(flag.reason)}"
    rows = [
        ["kind, type", f"{flag.kind}, {flag.type}"],
        ["default", code(flag.default) or "empty"],
        ["accepts", _accepts(flag)],
        ["affects", ", ".join(code(glob) for glob in flag.affects)],
        ["set by", _set_by(flag)],
    ]
    if flag.define:
        rows.append(["macro", code(flag.define)])
    for value, words in flag.options.items():
        label = (
            "any other value" if value == "*" and len(flag.options) > 1 else "a value" if value == "*" else code(value)
        )
        rows.append([f"options at {label}", " ".join(code(word) for word in words) or "none"])
    yield table(["", ""], rows)


def _accepts(flag: Flag) -> str:
    if isinstance(flag.accepts, Range):
        return code(str(flag.accepts))
    if flag.accepts is not None:
        return ", ".join(code(value) for value in flag.accepts)
    return code("0") + ", " + code("1") if flag.type == "bool" else f"any {flag.type}"


def _set_by(flag: Flag) -> str:
    return f"`--set {flag.name}=VALUE`, `SPARKCTL_FLAG_{flag.name.upper()}`"


def _kernel_list(registry: Registry) -> str:
    rows = []
    for kernel in registry.kernels.values():
        count = len(span_variants(kernel))
        rows.append([f"[{kernel.name}](#{kernel.name})", kernel.family, str(count), cell(kernel.doc)])
    total = sum(int(row[2]) for row in rows)
    listed = table(["kernel", "family", "variants", "does"], rows, right=["variants"])
    return f"{len(rows)} kernels, {total} variants.\n\n{listed}"


def _kernel(kernel: Kernel) -> Iterator[str]:
    yield f"### {kernel.name}"
    yield cell(kernel.doc)
    yield table(
        ["", ""],
        [
            ["family, source", f"{kernel.family}, {code(kernel.source)}"],
            ["oldest arch", code(kernel.min_arch.name)],
            ["variants", _variant_counts(kernel)],
            ["threads per block", code(kernel.block)],
            ["dynamic shared memory, B", code(kernel.dynamic_smem)],
            ["accepts", ", ".join(code(f"{name} {span}") for name, span in kernel.accepts.items()) or "–"],
            *_own_values(kernel),
        ],
    )
    axes = [
        [
            code(axis.name),
            ", ".join(code(str(value)) for value in axis.values),
            _default(axis.default),
            code(axis.short),
        ]
        for axis in kernel.axes
    ]
    if axes:
        yield table(["axis", "values", "default", "in names"], axes)
    if kernel.require:
        yield "A point of the axes is a variant only where all of these hold:"
        yield "\n".join(f"- `{formula}`" for formula in kernel.require)


def _default(value: object) -> str:
    return code(str(value)) if value is not None else "–"


def _variant_counts(kernel: Kernel) -> str:
    """The number of variants, and on which archs fewer can be built."""
    variants = span_variants(kernel)
    fitting = {arch.name: sum(runs_on(variant, arch) for variant in variants) for arch in KNOWN_ARCHS}
    fewer: dict[int, list[str]] = {}
    for name, count in fitting.items():
        if count != len(variants):
            fewer.setdefault(count, []).append(name)
    parts = [f"{count} on {', '.join(names)}" for count, names in fewer.items()]
    return "; ".join([str(len(variants)), *parts])


def _own_values(kernel: Kernel) -> Iterator[list[str]]:
    """Flag values and options that the kernel, or the kernel on an arch, brings."""
    for where, values in (("", kernel.set), *kernel.arch_set.items()):
        if values:
            yield [f"flags set{f' on {where}' if where else ''}", _pairs(values)]
    for where, words in kernel.nvcc.items():
        yield [f"nvcc options{'' if where == '*' else f' on {where}'}", " ".join(code(word) for word in words)]


def _pairs(values: Mapping[str, str]) -> str:
    return ", ".join(code(f"{name}={value}") for name, value in values.items())


def _suites(suites: Mapping[str, Suite]) -> str:
    rows = [[code(suite.name), str(len(suite.cases)), cell(suite.doc)] for suite in suites.values()]
    listed = table(["suite", "cases", "for"], rows, right=["cases"])
    return f"`sparkctl bench --suite NAME` measures them; `sparkctl flags list -v` shows each case.\n\n{listed}"
