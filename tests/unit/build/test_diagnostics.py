"""Compilers' errors: file, line and text, each once."""

from sparkctl.build.diagnostics import Diagnostic, parse_diagnostics

NVCC = """\
alpha.n1 failed (cuda-sm_90-release), exit code 2
build/.links/toolkit/bin/nvcc -x cu -c csrc/alpha.cu -o build/obj/alpha.n1.o
csrc/common/../alpha.cu(31): error: identifier "blockIdy" is undefined
    const int batch = blockIdy.y
                      ^

csrc/alpha.cu(32): error #20-D: expected a ";"
Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"

csrc/alpha.cu(40): warning #177-D: variable "x" was declared but never referenced
2 errors detected in the compilation of "csrc/alpha.cu".
csrc/common/../alpha.cu(31): error: identifier "blockIdy" is undefined
"""


def shown(text: str) -> list[str]:
    return [str(diagnostic) for diagnostic in parse_diagnostics(text)]


def test_errors_of_nvcc_come_once_with_the_file_as_the_project_calls_it() -> None:
    assert parse_diagnostics(NVCC) == (
        Diagnostic("csrc/alpha.cu", 31, 'identifier "blockIdy" is undefined'),
        Diagnostic("csrc/alpha.cu", 32, 'expected a ";"'),
    )


def test_errors_of_gxx_and_of_the_preprocessor() -> None:
    text = """\
In file included from csrc/a.cu:3:
csrc/a.cu:7:10: fatal error: no_such.h: No such file or directory
csrc/b.h:12:5: error: 'foo' was not declared in this scope
csrc/b.h:12:5: note: suggested alternative: 'for'
"""
    assert shown(text) == [
        "csrc/a.cu:7: no_such.h: No such file or directory",
        "csrc/b.h:12: 'foo' was not declared in this scope",
    ]


def test_stages_that_know_no_line() -> None:
    text = """\
ptxas error   : Entry function '_Z1f' uses too much shared data (0x20000 bytes, 0xc000 max)
nvcc fatal   : Unknown option '-fno'
/usr/bin/ld: obj/a.o: in function `main':
a.cpp:(.text+0x9): undefined reference to `gone()'
"""
    assert shown(text) == [
        "ptxas error : Entry function '_Z1f' uses too much shared data (0x20000 bytes, 0xc000 max)",
        "nvcc fatal : Unknown option '-fno'",
        "ld: obj/a.o: in function `main':",
        "a.cpp:(.text+0x9): undefined reference to `gone()'",
    ]


def test_text_without_errors_has_none() -> None:
    assert parse_diagnostics("ptxas info    : 0 bytes gmem\n12 warnings\n") == ()
