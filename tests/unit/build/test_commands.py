"""Compiler command lines: what is refused, what is escaped, how paths are spelled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sparkctl.arch import parse_arch
from sparkctl.build.commands import cuda_command, host_command, link_command, nvcc_program
from sparkctl.build.paths import Paths, path_text
from sparkctl.errors import UsageError
from sparkctl.registry import ResolvedFlags
from sparkctl.toolchain import HostCompiler, Nvcc, Toolchain

TOOLKIT = Path("/opt/cuda-13.0")
NVCC = Nvcc(
    path=TOOLKIT / "bin/nvcc",
    root=TOOLKIT,
    version="13.0.88",
    source="PATH",
    reason="PATH: /opt/cuda-13.0/bin/nvcc",
    include_dirs=(TOOLKIT / "include",),
    library_dirs=(TOOLKIT / "lib64",),
    gpu_codes=("sm_90",),
    plain=True,
    identity="0123456789abcdef",
)
HOST = HostCompiler(Path("/usr/bin/g++"), "g++ 12.2.0", "PATH", "g++ 12.2.0 x86_64")
TOOLCHAIN = Toolchain(NVCC, HOST, Path("/bin/ninja"), None, None, NVCC.include_dirs, Path("/tmp/memory"))
ROOT = Path("/home/user/project")
PATHS = Paths(ROOT, ((ROOT / "build/.links/toolkit-01234567", TOOLKIT),))


def flags(**changes: object) -> ResolvedFlags:
    kinds = dict.fromkeys(("nvcc", "ptxas", "host", "chain", "options"), ())
    return ResolvedFlags(**{**kinds, "defines": {}, "runtime": {}, "values": {}, **changes})


def command(**changes: object) -> tuple[str, ...]:
    source = str(changes.pop("source", "csrc/a.cu"))
    output = str(changes.pop("output", "build/x/a.o"))
    arch = parse_arch(str(changes.pop("arch", "sm_90a")))
    return cuda_command(TOOLCHAIN, flags(**changes), arch=arch, paths=PATHS, source=source, output=output)


def test_the_whole_nvcc_command() -> None:
    words = command(nvcc=("-O3", "--use_fast_math"), ptxas=("-v", "-O3"), defines={"SPARK_DTYPE": "bf16"})
    assert " ".join(words) == (
        "build/.links/toolkit-01234567/bin/nvcc -x cu -c csrc/a.cu -o build/x/a.o -I csrc -std=c++17 "
        "-Xcompiler=-fPIC,-fvisibility=hidden,-fno-gnu-unique -O3 --use_fast_math -Xptxas=-v,-O3 "
        "-gencode=arch=compute_90a,code=sm_90a -DSPARK_DTYPE=bf16 -MD -MF build/x/a.o.d"
    )


def test_ptx_travels_along_when_asked() -> None:
    assert "-gencode=arch=compute_80,code=compute_80" in command(arch="8.0+PTX")


def test_commas_in_defines_are_escaped_for_nvcc() -> None:
    assert "-DTWO=f(256\\,2)" in command(defines={"TWO": "f(256,2)"})


@pytest.mark.parametrize("text", ["$(x)", "`x`", "\\$(x)", "a\nb"])
def test_what_a_shell_would_run_inside_quotes_is_refused_in_defines(text: str) -> None:
    with pytest.raises(UsageError, match="nvcc would hand"):
        command(defines={"X": text})


@pytest.mark.parametrize("text", ['"a b"', "'a'", "(1|2);", "<x>"])
def test_ordinary_text_in_defines_is_accepted(text: str) -> None:
    assert f"-DX={text}" in command(defines={"X": text})


@pytest.mark.parametrize("text", ["; x", "' ; x ; '", '"', "a|b", "a&b", "a>b", "*", "$x", "(x)", "\\"])
def test_shell_characters_are_refused_in_options_that_nvcc_passes_on(text: str) -> None:
    for changes in ({"nvcc": (f"-Xcompiler={text}",)}, {"ptxas": ("-v", text)}, {"nvcc": (text,)}):
        with pytest.raises(UsageError, match="nvcc would hand"):
            command(**changes)


@pytest.mark.parametrize("text", ['csrc/a";x;".cu', "csrc/$(x).cu", "csrc/`x`.cu"])
def test_file_names_that_nvcc_cannot_quote_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="nvcc would hand"):
        command(source=text)


@pytest.mark.parametrize("text", ["csrc/with space.cu", "csrc/größe.cu", "csrc/it's.cu", "csrc/a;b.cu"])
def test_odd_but_harmless_file_names_are_accepted(text: str) -> None:
    assert text in command(source=text)


def test_real_options_are_accepted() -> None:
    options = ("--diag-suppress=177,550", "-Xcompiler=-Wall,-Wno-psabi", "--expt-relaxed-constexpr", "-maxrregcount=64")
    assert set(options) <= set(command(nvcc=options))


def test_a_line_break_is_refused_for_the_host_compiler_too() -> None:
    with pytest.raises(UsageError, match="line break"):
        host_command(
            TOOLCHAIN,
            paths=PATHS,
            source="a.cpp",
            output="a.o",
            options=("-DX=a\nb",),
            defines={},
            includes=(),
            system_includes=(),
        )


def test_host_commands_hide_symbols_and_the_projects_folder() -> None:
    words = host_command(
        TOOLCHAIN,
        paths=PATHS,
        source="csrc/a.cpp",
        output="build/a.o",
        options=("-O3",),
        defines={"SPARK_EMULATOR": "1"},
        includes=("csrc/emulator", "csrc"),
        system_includes=(TOOLKIT / "include",),
    )
    assert " ".join(words) == (
        "/usr/bin/g++ -x c++ -c csrc/a.cpp -o build/a.o -I csrc/emulator -I csrc "
        "-isystem build/.links/toolkit-01234567/include -std=c++17 -fPIC -fvisibility=hidden -fno-gnu-unique "
        "-ffile-prefix-map=/home/user/project=. -O3 -DSPARK_EMULATOR=1 -MD -MF build/a.o.d"
    )


def test_the_link_takes_the_static_runtime_for_cuda_only() -> None:
    cuda = link_command(TOOLCHAIN, paths=PATHS, cuda=True, tvm_library=None)
    assert "-lcudart_static" in cuda
    assert "-Lbuild/.links/toolkit-01234567/lib64" in cuda
    assert "-lcudart_static" not in link_command(TOOLCHAIN, paths=PATHS, cuda=False, tvm_library=None)


def test_paths_inside_the_project_are_relative_and_others_are_not() -> None:
    assert path_text(ROOT / "build/x", ROOT) == "build/x"
    assert path_text(Path("/opt/x"), ROOT) == "/opt/x"


def test_a_script_that_adds_options_is_called_itself_and_one_that_adds_none_is_not() -> None:
    script = Path("/usr/local/bin/nvcc")
    adding = replace(TOOLCHAIN, nvcc=replace(NVCC, path=script, plain=False))
    assert nvcc_program(adding, PATHS) == "/usr/local/bin/nvcc"
    plain = replace(TOOLCHAIN, nvcc=replace(NVCC, path=script))
    assert nvcc_program(plain, PATHS) == "build/.links/toolkit-01234567/bin/nvcc"
