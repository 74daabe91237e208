"""The compilers' command lines. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from sparkctl.arch import Arch
from sparkctl.build.paths import Paths
from sparkctl.errors import UsageError
from sparkctl.registry.model import ResolvedFlags
from sparkctl.toolchain import Toolchain

OUT = "{out}"
OBJECTS = "--options-file={objects}"  # as nvcc takes a response file; g++ takes @{objects}
CUDA_HOST_OPTIONS = "-Xcompiler=-fPIC,-fvisibility=hidden,-fno-gnu-unique"
_BAD_IN_DEFINES = re.compile(r"[$`\n]|\\(?!,)")
_BAD_IN_PATHS = re.compile(r"""[$`"\\\n]""")
_BAD_BARE = re.compile(r"""[^\w.,:=/+@%^ -]""")
_STANDARD = re.compile(r"--?std\b")
HOST_OPTIONS = ("-std=c++17", "-fPIC", "-fvisibility=hidden", "-fno-gnu-unique")


def cuda_command(
    toolchain: Toolchain,
    flags: ResolvedFlags,
    *,
    arch: Arch,
    paths: Paths,
    source: str,
    output: str,
    before: Iterable[str] = ("csrc",),
    behind: Iterable[str] = (),
) -> tuple[str, ...]:
    """nvcc for one source; `before` and `behind` are include folders ahead of the flags' own and after them."""
    ptxas = (f"-Xptxas={','.join(flags.ptxas)}",) if flags.ptxas else ()
    host = toolchain.require_host()
    return _safe_for_nvcc(
        (
            nvcc_program(toolchain, paths),
            *((f"-ccbin={paths.text(host.path)}",) if host.source == "CXX" else ()),
            *("-x", "cu", "-c", source, "-o", output),
            *(word for folder in before for word in ("-I", folder)),
            *(() if any(_STANDARD.match(word) for word in flags.nvcc) else ("-std=c++17",)),
            CUDA_HOST_OPTIONS,
            *flags.nvcc,
            *(word for folder in behind for word in ("-I", folder)),
            *ptxas,
            *arch.gencode,
            *(word.replace(",", "\\,") for word in define_options(flags.defines)),  # nvcc splits values at commas
            *("-MD", "-MF", f"{output}.d"),
        )
    )


def host_command(
    toolchain: Toolchain,
    *,
    paths: Paths,
    source: str,
    output: str,
    options: Iterable[str],
    defines: Mapping[str, str],
    includes: Iterable[str],
    system_includes: Iterable[Path],
) -> tuple[str, ...]:
    """g++ for a variant of the emulator, a binding or a part of the emulator."""
    folders = [word for folder in includes for word in ("-I", folder)]
    folders += [word for folder in system_includes for word in ("-isystem", paths.text(folder))]
    return checked(
        (
            paths.text(toolchain.require_host().path),
            *("-x", "c++", "-c", source, "-o", output),
            *folders,
            *HOST_OPTIONS,
            f"-ffile-prefix-map={paths.root}=.",
            *options,
            *define_options(defines),
            *("-MD", "-MF", f"{output}.d"),
        )
    )


def link_command(toolchain: Toolchain, *, paths: Paths, cuda: bool, tvm_library: Path | None) -> tuple[str, ...]:
    """g++ for the library; `{out}` and `{objects}` are filled in by the ninja text."""
    words = [paths.text(toolchain.require_host().path), "-shared", "-o", "{out}", "@{objects}"]
    words += ["-Wl,--exclude-libs,ALL", "-Wl,-z,defs"] if tvm_library else ["-Wl,--exclude-libs,ALL"]
    if tvm_library:
        words += [paths.text(tvm_library)]
    return checked((*words, *_runtime_words(toolchain, paths, cuda)))


def device_link_command(toolchain: Toolchain, *, arch: Arch, paths: Paths, tvm_library: Path | None) -> tuple[str, ...]:
    """nvcc for a library of relocatable code, as link_command: it links the device code first."""
    nvcc = toolchain.require_nvcc()
    host = toolchain.require_host()
    return _safe_for_nvcc(
        (
            nvcc_program(toolchain, paths),
            *((f"-ccbin={paths.text(host.path)}",) if host.source == "CXX" else ()),
            *("-shared", "-o", "{out}", OBJECTS),
            *arch.gencode,
            *("-Xcompiler=-fPIC", "-Xlinker=--exclude-libs,ALL"),
            *((paths.text(tvm_library),) if tvm_library else ()),
            *(f"-L{paths.text(folder)}" for folder in nvcc.library_dirs),
            *("-lcudadevrt", "-lcudart_static", "-ldl", "-lpthread", "-lrt"),
        )
    )


def runner_link_command(toolchain: Toolchain, *, paths: Paths, cuda: bool) -> tuple[str, ...]:
    """g++ for the standalone test runner, as link_command."""
    words = [paths.text(toolchain.require_host().path), "-o", "{out}", "@{objects}"]
    return checked((*words, *_runtime_words(toolchain, paths, cuda)))


def nvcc_program(toolchain: Toolchain, paths: Paths) -> str:
    """The toolkit's own nvcc, however it was found, so that the same toolkit is the same command; a script that adds
    options is called itself."""
    nvcc = toolchain.require_nvcc()
    return paths.text(nvcc.root / "bin" / "nvcc" if nvcc.plain else nvcc.path)


def define_options(defines: Mapping[str, str]) -> tuple[str, ...]:
    """`-DNAME=value`."""
    return tuple(f"-D{name}={value}" for name, value in defines.items())


def _runtime_words(toolchain: Toolchain, paths: Paths, cuda: bool) -> tuple[str, ...]:
    folders = toolchain.require_nvcc().library_dirs if cuda else ()
    cudart = (*(f"-L{paths.text(folder)}" for folder in folders), "-lcudart_static") if cuda else ()
    return (*cudart, "-ldl", "-lpthread", "-lrt")


def _safe_for_nvcc(argv: tuple[str, ...]) -> tuple[str, ...]:
    """nvcc runs its stages through a shell: defines and paths in double quotes, where `$(…)`, backticks and
    backslashes still act, and what -Xptxas, -Xcompiler and the like pass on without any."""
    for before, word in zip(("", *argv), argv, strict=False):
        if word in (OUT, OBJECTS):  # filled in by the ninja text, with paths that were looked at
            continue
        is_path = before in ("-c", "-o", "-MF") or word == argv[0]
        bad = _BAD_IN_DEFINES if word.startswith("-D") else _BAD_IN_PATHS if is_path else _BAD_BARE
        if found := bad.search(word):
            hint = f"leave out {found[0]!r}, or put it into a header"
            raise UsageError(f"nvcc would hand {word!r} to a shell", hint=hint)
    return checked(argv)


def checked(argv: tuple[str, ...]) -> tuple[str, ...]:
    """UsageError for a word that no ninja file can carry."""
    for word in argv:
        if "\n" in word or "\r" in word or "\0" in word:
            raise UsageError(f"a line break or NUL in a compiler option: {word!r}")
    return argv
