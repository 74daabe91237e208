"""`sparkctl init`: a flags.yaml for a tree of `.cu` files, from what the compiler says of them."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sparkctl.arch import KNOWN_ARCHS, Arch
from sparkctl.build import Progress, default_archs, default_build_root, plan_build, run_build
from sparkctl.build.state import write_text
from sparkctl.errors import UsageError, WorkFailed
from sparkctl.registry import Registry, runs_on, select_variants
from sparkctl.registry.load import REGISTRY_NAME, parse_registry
from sparkctl.registry.tree import find_sources
from sparkctl.resources import ResourceUsage, parse_ptxas, shorten
from sparkctl.resources.launch_bounds import parse_launch_bounds
from sparkctl.toolchain import Toolchain, find_program, run_tool
from sparkctl.workflows.init_model import FoundKernel, FoundTree, InitOptions, InitReport, Rejected
from sparkctl.workflows.init_text import registry_text
from sparkctl.workflows.init_trial import Trial, try_tree

SAID_LINES = 4  # of the compiler's errors
_STRONG = frozenset("TDBRG")  # of nm: what two objects of one library may not both define


def init_tree(
    options: InitOptions,
    *,
    toolchain: Toolchain,
    environ: Mapping[str, str] = os.environ,
    progress: Progress | None = None,
) -> InitReport:
    """Compile every source, write flags.yaml, build what it says.

    A source that does not compile is left out and reported; the rest goes on. Raises UsageError for a folder that is
    none, holds no `.cu` or has a flags.yaml already, MissingTool without nvcc, WorkFailed where nothing compiles.
    """
    options = replace(options, root=_root_of(options))
    path = options.root / REGISTRY_NAME
    sources = find_sources(options.root)
    if not sources:
        raise UsageError(f"{options.root}: no .cu file in it or below", hint="sparkctl init DIR takes another folder")
    toolchain.require_nvcc()
    archs = options.archs or default_archs()
    for arch in archs:
        toolchain.require_arch(arch)
    trial = try_tree(options, sources, archs, toolchain=toolchain, environ=environ, progress=progress)
    tree, rejected = _sort(options, sources, archs, trial, toolchain, environ)
    if not tree.kernels:
        raise WorkFailed(_nothing_text(rejected), hint=_nothing_hint(rejected, trial.notes))
    text = registry_text(tree)
    registry = parse_registry(text, path)
    link_error = _build(registry, archs, toolchain, environ, progress)
    try:
        write_text(path, text)
    except OSError as error:
        raise WorkFailed(f"{path}: {error.strerror}", hint="is the folder writable?") from error
    return InitReport(path, tree, tuple(archs), tuple(rejected), trial.notes, link_error)


def _root_of(options: InitOptions) -> Path:
    root = options.root.expanduser().resolve()
    if not root.is_dir():
        raise UsageError(f"{options.root}: {'not a folder' if root.exists() else 'no such folder'}")
    path = root / REGISTRY_NAME
    if os.path.lexists(path) and not options.force:
        raise UsageError(f"{path} is there already", hint="--force writes it anew")
    if os.path.lexists(path) and not path.is_file():
        raise UsageError(f"{path}: not a file", hint="move it away")
    return root


def _sort(
    options: InitOptions,
    sources: Sequence[str],
    archs: Sequence[Arch],
    trial: Trial,
    toolchain: Toolchain,
    environ: Mapping[str, str],
) -> tuple[FoundTree, list[Rejected]]:
    """Kernels, helpers and what is neither."""
    kernels: list[FoundKernel] = []
    helpers: list[str] = []
    rejected: list[Rejected] = []
    symbols: dict[str, frozenset[str]] = {}
    for source in sources:
        good = [arch for arch in archs if (source, arch) not in trial.said]
        bad = [arch for arch in archs if arch not in good]
        if bad and (not good or max(bad) > min(good)):
            where = ", ".join(arch.name for arch in bad)
            rejected.append(Rejected(source, f"does not compile for {where}", _errors(trial.said[source, bad[0]])))
            continue
        entries = _entries(trial, source, good)
        symbols[source] = _symbols(trial.built(source, good[0]), environ)
        if entries:
            oldest = replace(min(good), suffix="") if options.archs or bad else _oldest(toolchain)
            bounds = _bounds(trial, source, good[0], entries, toolchain) or options.block_threads
            kernels.append(FoundKernel("", source, _short_names(entries), oldest, bounds))
        elif "main" in symbols[source]:
            rejected.append(Rejected(source, "no kernel, and a main() of its own"))
        else:
            helpers.append(source)
    kernels = _linked(_named(kernels), helpers, symbols)
    return FoundTree(options.archs, trial.options, tuple(kernels), tuple(helpers)), rejected


def _entries(trial: Trial, source: str, archs: Iterable[Arch]) -> list[ResourceUsage]:
    """The kernels that ptxas reported, each once."""
    found: dict[str, ResourceUsage] = {}
    for arch in archs:
        text = trial.log(source, arch).read_text(encoding="utf-8", errors="replace")
        try:
            usages = parse_ptxas(text)
        except WorkFailed:
            if "Compiling entry function" in text:
                raise
            continue  # a source without device code
        found |= {usage.function: usage for usage in usages if usage.is_entry and usage.function not in found}
    return list(found.values())


def _bounds(
    trial: Trial, source: str, arch: Arch, entries: Sequence[ResourceUsage], toolchain: Toolchain
) -> int | None:
    """The __launch_bounds__ that all of its kernels share; None without cuobjdump, which reads them."""
    if toolchain.cuobjdump is None:
        return None
    listing = run_tool([toolchain.cuobjdump, "-elf", trial.built(source, arch)], check=False).stdout
    bounds = parse_launch_bounds(listing)
    shared = {bounds.get(entry.function) for entry in entries}
    return shared.pop() if len(shared) == 1 else None


def _symbols(built: Path, environ: Mapping[str, str]) -> frozenset[str]:
    """What the object defines for all others to see; nothing where there is no nm, which comes with every linker."""
    nm = find_program("nm", environ)
    if nm is None:
        return frozenset()
    lines = run_tool([nm, "-g", "--defined-only", "-P", built], check=False).stdout.splitlines()
    return frozenset(words[0] for line in lines if len(words := line.split()) > 1 and words[1] in _STRONG)


def _linked(
    kernels: Sequence[FoundKernel], helpers: Sequence[str], symbols: Mapping[str, frozenset[str]]
) -> list[FoundKernel]:
    """Programs, and what defines a name that an earlier source has, stay out of the library."""
    taken = {name: source for source in helpers for name in symbols[source]}
    result = []
    for kernel in kernels:
        own = symbols[kernel.source]
        double = sorted(own & taken.keys())
        if "main" in own:
            result.append(replace(kernel, link=False, why_alone="a program: it has a main()"))
        elif double:
            why = f"{_readable(double[0])} is in {taken[double[0]]} too"
            result.append(replace(kernel, link=False, why_alone=why))
        else:
            taken |= dict.fromkeys(own, kernel.source)
            result.append(kernel)
    return result


def _named(kernels: Sequence[FoundKernel]) -> list[FoundKernel]:
    """After the kernel where a source has one, else after the source; with its folders where that is not enough."""
    first = [_first_name(kernel) for kernel in kernels]
    counts = Counter(first)
    stems = [_identifier(Path(kernel.source).stem) for kernel in kernels]
    second = [name if counts[name] == 1 else stem for name, stem in zip(first, stems, strict=True)]
    counts = Counter(second)
    names: list[str] = []
    for kernel, name in zip(kernels, second, strict=True):
        wanted = name if counts[name] == 1 else _identifier(str(Path(kernel.source).with_suffix("")))
        while wanted in names:
            wanted += "_"
        names.append(wanted)
    return [replace(kernel, name=name) for kernel, name in zip(kernels, names, strict=True)]


def _first_name(kernel: FoundKernel) -> str:
    bare = {function.partition("<")[0] for function in kernel.functions}
    return _identifier(bare.pop() if len(bare) == 1 else Path(kernel.source).stem)


def _identifier(text: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_") or "kernel"
    return f"k_{name}"[:100] if name[0].isdigit() else name[:100]


def _short_names(entries: Iterable[ResourceUsage]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(shorten(entry.demangled) for entry in entries))


def _readable(symbol: str) -> str:
    from sparkctl.resources import demangle

    return demangle(symbol)


def _oldest(toolchain: Toolchain) -> Arch:
    known = toolchain.require_nvcc().gpu_codes
    return next((arch for arch in sorted(KNOWN_ARCHS) if arch.name in known), KNOWN_ARCHS[0])


def _build(
    registry: Registry,
    archs: Sequence[Arch],
    toolchain: Toolchain,
    environ: Mapping[str, str],
    progress: Progress | None,
) -> str:
    """Under the final names, from the cache; what the linker says where it fails."""
    plans = [
        plan_build(
            registry,
            variants,
            arch=arch,
            backend="cuda",
            toolchain=toolchain,
            environ=environ,
            build_root=default_build_root(registry, environ),
        )
        for arch in archs
        if (variants := [v for v in select_variants(registry) if runs_on(v, arch)])
    ]
    result = run_build(plans, progress=progress)
    failed = [edge for plan in result.plans for edge in plan.failed]
    return _errors(failed[0].output or "") if failed else ""


def _errors(text: str) -> str:
    """The lines that say what is wrong."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if re.search(r"error|fatal|undefined reference|multiple definition", line)]
    return "\n".join((told or lines)[:SAID_LINES])


def _nothing_text(rejected: Sequence[Rejected]) -> str:
    parts = [f"{one.source}: {one.why}" + (f"\n{one.said}" if one.said else "") for one in rejected]
    return "\n".join(["no source with a kernel compiles; nothing is written", *parts])


def _nothing_hint(rejected: Sequence[Rejected], notes: Sequence[str]) -> str:
    asked = [note for note in notes if "with -I" in note]
    return "\n".join(asked) or "-I DIR, --arch and --nvcc-option=OPTION pass on what it needs"
