"""The register report of any file: a CUDA source, a saved compiler log, an object with code for a GPU."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from sparkctl.arch import Arch, parse_arch
from sparkctl.build.helpers import is_relocatable
from sparkctl.errors import MissingTool, SparkctlError, UsageError, WorkFailed
from sparkctl.interrupts import check_interrupt
from sparkctl.registry.suggest import did_you_mean
from sparkctl.resources import ResourceUsage, object_usages, parse_lines, parse_resource_usage, refuse_failure
from sparkctl.toolchain import Toolchain, prepare_cache, run_tool
from sparkctl.workflows.regs_model import KernelReport, RegsReport, report_kernel, subject_in

Kind = Literal["source", "log", "object"]
SOURCES = (".cu", ".cuh", ".ptx")
SUFFIXES = (*SOURCES, ".o", ".obj", ".so", ".a", ".cubin", ".fatbin", ".log", ".ptxas", ".txt")
MAGIC = (b"\x7fELF", b"!<arch>\n", b"\x50\xed\x55\xba")  # an object or cubin, a library of them, a fatbin
_CUBIN = re.compile(r"\.(?P<arch>sm_\w+)\.cubin$")
_ELF_RELOCATABLE = b"\x01\x00"  # ET_REL in e_type
LONGEST_LINE = 1 << 16  # of a log; the rest of a longer one is passed over
COMPILE_TIMEOUT_S = 600


@dataclass(frozen=True, slots=True)
class FileOptions:
    """How files are read. `archs` None takes whatever a log or object holds; sources are compiled for `default`."""

    archs: tuple[Arch, ...] | None
    default: tuple[Arch, ...]
    block_threads: int | None = None
    dynamic_smem_bytes: int = 0
    nvcc: tuple[str, ...] = ()  # further options
    include: tuple[Path, ...] = ()
    max_regs: int | None = None


def is_file_name(text: str) -> bool:
    """Whether an argument means a file and not a kernel: a path, a known ending, or the name of a file here."""
    return "/" in text or text.endswith(SUFFIXES) or Path(text).is_file()


def report_files(
    paths: Sequence[Path], options: FileOptions, *, toolchain: Toolchain, environ: Mapping[str, str] = os.environ
) -> RegsReport:
    """One row per kernel and arch, files in order. UsageError, WorkFailed or MissingTool names the file."""
    rows: list[KernelReport] = []
    notes: list[str] = []
    by: list[str] = []
    for path in paths:
        check_interrupt()
        kind = kind_of(path)
        usages, tool = read_file(path, kind, options, toolchain, environ)
        by.append(tool)
        found, said = _rows_of(path, kind, usages, options)
        rows += found
        notes += said
    archs = tuple(dict.fromkeys(row.arch for row in rows))
    return RegsReport(
        compiler=", ".join(dict.fromkeys(by)),
        profile=None,
        sets={},
        archs=tuple(sorted(archs)),
        rows=tuple(rows),
        left_out=(),
        notes=tuple(dict.fromkeys(notes)),
    )


def kind_of(path: Path) -> Kind:
    """By its content, sources by their ending. UsageError for what is no file, is empty, or is none of the three."""
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise UsageError(f"{path}: a folder", hint="name a .cu file, a saved ptxas log or an object in it")
        if not stat.S_ISREG(found.st_mode):
            raise UsageError(f"{path}: not a regular file", hint="save what it gives, and name that file")
        with path.open("rb") as stream:
            start = stream.read(1 << 16)
    except FileNotFoundError as error:
        near = did_you_mean(path.name, [entry.name for entry in _beside(path)]) or "name a .cu file, a log or an object"
        raise UsageError(f"{path}: no such file", hint=near) from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="name a .cu file, a log or an object") from error
    if not start:
        raise UsageError(f"{path}: empty", hint="a log of -Xptxas=-v, a .cu file or an object is expected")
    if path.suffix in SOURCES and b"\0" in start:
        raise UsageError(f"{path}: not text", hint="a .cu file; objects and logs are known by other endings")
    if path.suffix in SOURCES:
        return "source"
    if start.startswith(MAGIC):
        return "object"
    if b"\0" in start.rstrip(b"\0"):
        raise UsageError(f"{path}: neither text nor an object", hint="a .cu file, a ptxas log, a .o, .so, .a or cubin")
    return "log"


def read_file(
    path: Path, kind: Kind, options: FileOptions, toolchain: Toolchain, environ: Mapping[str, str]
) -> tuple[tuple[ResourceUsage, ...], str]:
    """Every function of it, and what said so."""
    if kind == "source":
        return compile_source(path, options, toolchain, environ), f"nvcc {toolchain.require_nvcc().version}"
    if kind == "object":
        return read_object(path, toolchain), "cuobjdump"
    return read_log(path), "a saved log"


def read_log(path: Path) -> tuple[ResourceUsage, ...]:
    """Line by line, so that memory does not grow with the file. WorkFailed names it."""
    try:
        refuse_failure(_lines(path))
        return parse_lines(_lines(path))
    except WorkFailed as error:
        raise WorkFailed(f"{path}: {error.message}", hint=error.hint) from error
    except OSError as error:
        raise WorkFailed(f"{path}: {error.strerror}") from error


def read_object(path: Path, toolchain: Toolchain) -> tuple[ResourceUsage, ...]:
    """What the object itself records: no spills and no barriers. MissingTool without cuobjdump."""
    if toolchain.cuobjdump is None:
        raise MissingTool(f"{path}: no cuobjdump to read it", hint="pip install 'sparkctl[toolchain]'")
    cubins = _cubins(path, toolchain.cuobjdump)
    done = run_tool([toolchain.cuobjdump, "--dump-resource-usage", path.absolute()], check=False)
    if done.returncode != 0 or "Resource usage:" not in done.stdout or not cubins:
        said = (done.output.strip().splitlines() or ["it printed nothing"])[-1]
        raise WorkFailed(f"{path}: cuobjdump finds no code for a GPU in it: {said}", hint="was it compiled by nvcc?")
    listing = done.stdout
    if not re.search(r"^arch = ", listing, re.MULTILINE):  # of a bare cubin
        listing = f"arch = {cubins[0][0]}\n{listing}"
    try:
        usages = object_usages(parse_resource_usage(listing))
    except WorkFailed as error:
        raise WorkFailed(f"{path}: {error.message}", hint=error.hint) from error
    open_ended = {arch for arch, is_relocatable in cubins if is_relocatable}
    return tuple(relocatable(usage) if usage.arch in open_ended else usage for usage in usages)


def relocatable(usage: ResourceUsage) -> ResourceUsage:
    """The linker decides: shared memory is not final."""
    return replace(usage, relocatable=True, static_smem_bytes=None)


def _cubins(path: Path, cuobjdump: Path) -> list[tuple[str, bool]]:
    """(arch, whether it is relocatable) of each cubin in the object: its name says the one, its ELF type the other."""
    with TemporaryDirectory(prefix="sparkctl-regs-") as folder:
        run_tool([cuobjdump, "-xelf", "all", path.absolute()], cwd=Path(folder), check=False)
        found = []
        for cubin in sorted(Path(folder).iterdir()):
            if match := _CUBIN.search(cubin.name):
                with cubin.open("rb") as stream:
                    found.append((match["arch"], stream.read(18)[16:] == _ELF_RELOCATABLE))
        return found


def compile_source(
    path: Path, options: FileOptions, toolchain: Toolchain, environ: Mapping[str, str]
) -> tuple[ResourceUsage, ...]:
    """One nvcc per arch, through the compile cache. WorkFailed with the compiler's own words."""
    archs = options.archs or options.default
    for arch in archs:
        toolchain.require_arch(arch)
    with TemporaryDirectory(prefix="sparkctl-regs-") as folder, ThreadPoolExecutor(2) as pool:
        logs = list(pool.map(lambda arch: _compile(path, arch, options, toolchain, environ, Path(folder)), archs))
    usages: list[ResourceUsage] = []
    for log in logs:
        refuse_failure(log.splitlines())
        usages += parse_lines(line + "\n" for line in log.split("\n"))
    return tuple(relocatable(usage) if is_relocatable(options.nvcc) else usage for usage in usages)


def _compile(
    path: Path, arch: Arch, options: FileOptions, toolchain: Toolchain, environ: Mapping[str, str], folder: Path
) -> str:
    nvcc = toolchain.require_nvcc()
    cap = () if options.max_regs is None else (f"-Xptxas=-maxrregcount={options.max_regs},-override-directive-values",)
    temp = folder / arch.name
    temp.mkdir()
    includes = [word for include in (path.absolute().parent, *options.include) for word in ("-I", str(include))]
    command = [str(nvcc.path), "-c", str(path.absolute()), "-o", str(temp / "out.o"), *includes]
    command += ["-std=c++17", "-Xptxas=-v", *cap, *arch.gencode, *options.nvcc]
    cache = prepare_cache(
        toolchain.ccache, environ=environ, root=temp, compilers=nvcc.identity, temp=temp, private=False
    )
    settings = {**environ, **cache.environ, "LC_ALL": "C.UTF-8", "TMPDIR": str(temp)}
    done = run_tool(
        [*([str(cache.program)] if cache.program else []), *command],
        cwd=path.absolute().parent,
        env=settings,
        timeout=COMPILE_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        lines = [line for line in done.output.splitlines() if line.strip()]
        first = next((index for index, line in enumerate(lines) if "error" in line), 0)
        said = "\n".join(f"  {line}" for line in lines[first : first + 12])
        raise WorkFailed(f"{path} does not compile for {arch.name}\n{said}", hint="--nvcc-option=OPTION passes one on")
    return done.output


def _rows_of(
    path: Path, kind: Kind, usages: Sequence[ResourceUsage], options: FileOptions
) -> tuple[list[KernelReport], list[str]]:
    """Kernels in their order, the archs of each together; and what has to be said of the file."""
    notes = []
    if kind == "object":
        notes.append(f"{path}: an object records neither spills nor barriers; a log of -Xptxas=-v has both")
    if any(usage.relocatable for usage in usages):
        notes.append(f"{path}: relocatable code (-rdc): registers and shared memory are final only after the link")
    by_arch: dict[str, Arch] = {}
    for name in dict.fromkeys(usage.arch for usage in usages if usage.arch):
        try:
            by_arch[name] = parse_arch(name)
        except SparkctlError as error:
            notes.append(f"{path}: {name} is left out: {error.message}")
    entries = [usage for usage in usages if usage.is_entry and usage.arch in by_arch]
    if options.archs is not None:
        wanted = {arch.name for arch in options.archs}
        held = sorted({usage.arch or "" for usage in entries})
        entries = [usage for usage in entries if usage.arch in wanted]
        if not entries and held:
            raise UsageError(f"{path}: it holds {' and '.join(held)}", hint=f"leave out --arch, or --arch {held[0]}")
    if not entries:
        raise WorkFailed(
            f"{path}: no kernel in it", hint="; ".join(notes[-1:]) or "device functions alone have no report"
        )
    order = {name: index for index, name in enumerate(dict.fromkeys(usage.function for usage in entries))}
    entries.sort(key=lambda usage: (order[usage.function], by_arch[usage.arch or ""]))
    calls = tuple(usage for usage in usages if not usage.is_entry)
    rows = []
    for usage in entries:
        subject = subject_in(
            path.name,
            usage,
            block_threads=options.block_threads,
            dynamic_smem_bytes=options.dynamic_smem_bytes,
        )
        own = tuple(call for call in calls if call.arch in (usage.arch, None))
        rows.append(report_kernel(subject, by_arch[usage.arch or ""], usage, own, path))
    return rows, notes


def _lines(path: Path) -> Iterator[str]:
    """With their breaks, none longer than LONGEST_LINE."""
    with path.open("r", encoding="utf-8", errors="replace", newline="") as stream:
        while line := stream.readline(LONGEST_LINE):
            if not line.endswith("\n") and len(line) == LONGEST_LINE:
                while (rest := stream.readline(1 << 20)) and not rest.endswith("\n"):
                    check_interrupt()
                line = f"{line[:200]} …\n"
            yield line


def _beside(path: Path) -> list[Path]:
    try:
        return [entry for entry in path.parent.iterdir() if entry.is_file()][:1000]
    except OSError:
        return []
