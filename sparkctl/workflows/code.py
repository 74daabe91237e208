"""The code of variants: build what is missing, disassemble it or let nvcc write PTX, and count."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from sparkctl.arch import Arch
from sparkctl.build import BuildPlan, Edge, Progress, inputs_of, plan_build, raise_failures, run_build
from sparkctl.build.state import write_text
from sparkctl.errors import UsageError, WorkFailed
from sparkctl.registry import Registry, Variant, runs_on, select_variants
from sparkctl.resources import demangle, parse_ptxas
from sparkctl.resources.code import Function, Instruction, Kind, LineCount, Mix, Place, count_lines, count_mix
from sparkctl.resources.ptx import parse_ptx, ptx_kind
from sparkctl.resources.sass import GROUPS, parse_sass, sass_kind
from sparkctl.toolchain import Toolchain, run_tool
from sparkctl.workflows.regs import why_left_out
from sparkctl.workflows.regs_model import LeftOut

Form = Literal["sass", "ptx"]
KINDS: Mapping[Form, Callable[[Instruction], Kind]] = {"sass": sass_kind, "ptx": ptx_kind}
JOBS = 4  # disassemblers at once, at most
EXPECTED_S = 0.6  # of one


@dataclass(frozen=True, slots=True)
class CodeOptions:
    """What is shown of which variants."""

    form: Form
    patterns: tuple[str, ...]
    archs: tuple[Arch, ...]
    where: Mapping[str, Sequence[str]]
    profile: str = "release"
    sets: Mapping[str, str] | None = None
    one: Literal["--listing", "--by-line"] | None = None  # what shows a single variant


@dataclass(frozen=True, slots=True)
class Registers:
    """What ptxas said of a function; None where its log does not say."""

    count: int | None
    spill_store_bytes: int | None
    spill_load_bytes: int | None

    @property
    def spills(self) -> bool:
        return bool(self.spill_store_bytes or self.spill_load_bytes)


@dataclass(frozen=True, slots=True)
class CodeRow:
    """One kernel of one variant on one arch."""

    variant: Variant
    arch: Arch
    function: Function
    demangled: str
    mix: Mix
    registers: Registers
    file: Path  # the object, or the PTX

    @property
    def lines(self) -> tuple[LineCount, ...]:
        return count_lines(self.function, KINDS["ptx" if self.file.suffix == ".ptx" else "sass"])

    @property
    def has_lines(self) -> bool:
        return any(instruction.places for instruction in self.function.instructions)


@dataclass(frozen=True, slots=True)
class CodeReport:
    """Rows in registry order, each variant's archs together."""

    form: Form
    compiler: str
    profile: str
    sets: Mapping[str, str]
    archs: tuple[Arch, ...]
    rows: tuple[CodeRow, ...]
    left_out: tuple[LeftOut, ...]
    sources: Mapping[Place, str]  # the text of lines, as the sources are now


def report_code(
    registry: Registry,
    options: CodeOptions,
    *,
    toolchain: Toolchain,
    environ: Mapping[str, str] = os.environ,
    build_root: Path | None = None,
    progress: Progress | None = None,
) -> CodeReport:
    """The code of every selected variant that runs on some of the archs; compiles only what is missing.

    Raises UsageError where nothing or too much is selected, MissingTool without nvcc or a disassembler, WorkFailed for
    a failed build or code that cannot be read.
    """
    wanted = select_code(registry, options)
    nvcc = toolchain.require_nvcc()
    if options.form == "sass":
        toolchain.require_disassembler()
    plans = [
        plan_build(
            registry,
            variants,
            arch=arch,
            backend="cuda",
            profile=options.profile,
            sets=options.sets,
            toolchain=toolchain,
            environ=environ,
            build_root=build_root,
        )
        for arch, variants in wanted.items()
    ]
    raise_failures(run_build(plans, progress=progress))
    rows = sorted(
        (row for plan in plans for row in _read_plan(plan, wanted[plan.arch], options.form, progress)),
        key=_order(registry, options),
    )
    if options.one == "--by-line" and not any(row.has_lines for row in rows):
        raise UsageError(
            f"profile {options.profile}: its code has no source lines",
            hint="a profile with -lineinfo among its nvcc options has them: --profile lineinfo",
        )
    return CodeReport(
        form=options.form,
        compiler=f"nvcc {nvcc.version}",
        profile=options.profile,
        sets=dict(options.sets or {}),
        archs=options.archs,
        rows=tuple(rows),
        left_out=left_out(registry, options, wanted),
        sources=read_sources(registry.root, rows) if options.one else {},
    )


def select_code(registry: Registry, options: CodeOptions) -> dict[Arch, tuple[Variant, ...]]:
    """What each arch runs of the selection."""
    selected = select_variants(registry, options.patterns, where=options.where)
    wanted = {arch: tuple(variant for variant in selected if runs_on(variant, arch)) for arch in options.archs}
    wanted = {arch: variants for arch, variants in wanted.items() if variants}
    if not wanted:
        select_variants(registry, options.patterns, arch=options.archs[0], where=options.where)  # raises, and says why
    chosen = [(variant.name, arch.name) for arch, variants in wanted.items() for variant in variants]
    if options.one and len(chosen) > 1:
        raise UsageError(f"{options.one} shows one variant, {len(chosen)} are selected", hint=_choices(chosen))
    return wanted


def left_out(registry: Registry, options: CodeOptions, wanted: Mapping[Arch, Sequence[Variant]]) -> tuple[LeftOut, ...]:
    """What was selected and an arch cannot run."""
    selected = select_variants(registry, options.patterns, where=options.where)
    return tuple(
        LeftOut(variant, arch, why_left_out(variant, arch))
        for arch in options.archs
        for variant in selected
        if variant not in wanted.get(arch, ())
    )


def _choices(chosen: Sequence[tuple[str, str]]) -> str:
    names, archs = list(dict.fromkeys(n for n, _ in chosen)), list(dict.fromkeys(a for _, a in chosen))
    if len(names) == 1:
        return f"choose one by --arch: {', '.join(archs)}"
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return f"choose one: {shown}" + (f"; and one arch: {', '.join(archs)}" if len(archs) > 1 else "")


def _order(registry: Registry, options: CodeOptions) -> Callable[[CodeRow], tuple[int, int]]:
    names = [variant.name for variant in select_variants(registry, options.patterns, where=options.where)]
    return lambda row: (names.index(row.variant.name), options.archs.index(row.arch))


def read_sources(root: Path, rows: Sequence[CodeRow]) -> dict[Place, str]:
    """The text of every source line that code was made of, as far as its file can be read."""
    places = {place for row in rows for instruction in row.function.instructions for place in instruction.places}
    texts: dict[Place, str] = {}
    for file in sorted({place.file for place in places}):
        with contextlib.suppress(OSError):
            lines = (root / file).read_text(encoding="utf-8", errors="replace").splitlines()
            texts |= {p: lines[p.line - 1].strip() for p in places if p.file == file and 0 < p.line <= len(lines)}
    return texts


def _read_plan(
    plan: BuildPlan, variants: Sequence[Variant], form: Form, progress: Progress | None
) -> Iterator[CodeRow]:
    """The rows of one arch; several variants are read at once."""
    read = _read_sass if form == "sass" else _read_ptx
    edges = [edge for edge in plan.edges if edge.variant in variants]
    jobs = max(1, min(JOBS, len(os.sched_getaffinity(0))))
    if progress:
        progress.start(f"{form} of {plan.label}", {edge.name: EXPECTED_S for edge in edges}, jobs)
    pool = ThreadPoolExecutor(jobs)
    try:
        found = {pool.submit(read, plan, edge): edge for edge in edges}
        for done in as_completed(found):
            done.result()
            if progress:
                progress.edge(found[done].name, True)
    finally:
        pool.shutdown(cancel_futures=True)
        if progress:
            progress.stop()
    for future, edge in found.items():
        yield from _rows(plan, edge, form, future.result())


def _rows(plan: BuildPlan, edge: Edge, form: Form, functions: Sequence[Function]) -> Iterator[CodeRow]:
    """One for each kernel of the variant's code."""
    assert edge.variant is not None and edge.log is not None
    file, log = plan.root / edge.output, plan.root / edge.log
    with _naming(log):
        usages = {usage.function: usage for usage in parse_ptxas(log.read_text("utf-8", "replace")) if usage.is_entry}
    for function in functions:
        usage = usages.get(function.name)
        yield CodeRow(
            variant=edge.variant,
            arch=plan.arch,
            function=replace(function, arch=plan.arch.name),
            demangled=demangle(function.name),
            mix=count_mix(function, KINDS[form], GROUPS),
            registers=Registers(usage.registers, usage.spill_store_bytes, usage.spill_load_bytes)
            if usage
            else Registers(None, None, None),
            file=file if form == "sass" else _ptx_path(plan, edge),
        )


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """What is wrong with a text names its file."""
    try:
        yield
    except WorkFailed as error:
        raise WorkFailed(f"{path}: {error.message}", hint=error.hint) from error


def _read_sass(plan: BuildPlan, edge: Edge) -> tuple[Function, ...]:
    """The object's code for the plan's arch."""
    cuobjdump, nvdisasm = plan.toolchain.require_disassembler()
    built = plan.root / edge.output
    tools = b"".join(str(tool.resolve()).encode() for tool in (cuobjdump, nvdisasm))
    key = hashlib.blake2b(built.read_bytes() + tools, digest_size=16).hexdigest()

    def make() -> str:
        with TemporaryDirectory(prefix="sparkctl-sass-") as name:
            return disassemble(cuobjdump, nvdisasm, built, plan.arch, Path(name))

    def parse(text: str) -> tuple[Function, ...]:
        with _naming(built):
            return parse_sass(text, root=str(plan.root))

    return _kept(plan.folder / "code" / f"{edge.name}.sass", key, make, parse)


def disassemble(cuobjdump: Path, nvdisasm: Path, built: Path, arch: Arch, folder: Path) -> str:
    """nvdisasm's listing of the code that an object has for `arch`; `folder` is for what lies between."""
    said = run_tool([cuobjdump, "-xelf", "all", built], cwd=folder, check=False)
    found = sorted(folder.glob("*.cubin"))
    fitting = [path for path in found if path.name.endswith(f"{arch.name}.cubin")]
    if not fitting:
        held = sorted({path.name.split(".")[-2] for path in found})
        what = (
            f"; it has code for {', '.join(held)}"
            if held
            else f": {said.output.splitlines()[-1]}"
            if said.output
            else ""
        )
        raise WorkFailed(
            f"{built}: no SASS for {arch.name} in it{what}", hint="an option that replaces -gencode leaves PTX alone"
        )
    return "".join(run_tool([nvdisasm, "-c", "-gi", path]).stdout for path in fitting)


def _ptx_path(plan: BuildPlan, edge: Edge) -> Path:
    return plan.folder / "code" / f"{edge.name}.ptx"


def _read_ptx(plan: BuildPlan, edge: Edge) -> tuple[Function, ...]:
    """What nvcc writes for the object's very command, with -ptx in place of -c."""
    command, path = ptx_command(edge), _ptx_path(plan, edge)
    inputs = inputs_of(plan.folder).get(edge.name)
    said = [plan.compiler_identity, *command, *(f"{name} {digest}" for name, digest in (inputs or {}).items())]
    key = hashlib.blake2b("\n".join(said).encode(), digest_size=16).hexdigest() if inputs else None

    def make() -> str:
        with TemporaryDirectory(prefix="sparkctl-ptx-") as name:
            output = Path(name) / "kernel.ptx"
            run_tool([*command, "-o", output], cwd=plan.root, env=plan.environ)
            return output.read_text("utf-8", "replace")

    def parse(text: str) -> tuple[Function, ...]:
        with _naming(path):
            return parse_ptx(text, root=str(plan.root))

    return _kept(path, key, make, parse)


def ptx_command(edge: Edge) -> tuple[str, ...]:
    """The edge's command, without output and dependencies. Pure."""
    words = list(edge.argv)
    for option in ("-o", "-MF"):
        at = words.index(option)
        del words[at : at + 2]
    words.remove("-MD")
    words[words.index("-c")] = "-ptx"
    return tuple(words)


def _kept(
    path: Path, key: str | None, make: Callable[[], str], parse: Callable[[str], tuple[Function, ...]]
) -> tuple[Function, ...]:
    """The text under `path` if it was made from the same; else it is made, and kept if it is whole."""
    head = f"// {key}\n"
    with contextlib.suppress(OSError, UnicodeDecodeError, WorkFailed):
        text = path.read_text(encoding="utf-8")
        if key and text.startswith(head):
            return parse(text.removeprefix(head))
    made = make()
    functions = parse(made)
    if key:
        with contextlib.suppress(OSError):  # a folder that may only be read
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, head + made)
    return functions
