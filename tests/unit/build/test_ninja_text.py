"""The ninja file and its shell lines."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkctl.build.model import Edge, Link
from sparkctl.build.ninja_text import (
    NinjaFile,
    compile_shell,
    escape_path,
    escape_value,
    link_shell,
    link_words,
    ninja_text,
)
from sparkctl.errors import UsageError

EDGE = Edge("alpha.n1", None, "csrc/a.cu", "build/x/alpha.n1.o", "build/x/alpha.n1.ptxas", ("nvcc", "-c", "csrc/a.cu"))


def shell(edge: Edge, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    line = compile_shell(edge, "salt")
    env = {"PATH": "/usr/bin:/bin", **environ}
    return subprocess.run(["/bin/sh", "-c", line], cwd=folder, env=env, capture_output=True, text=True, check=False)


def link(output: str = "lib.so", *more: str, groups: tuple[str, ...] = ()) -> Link:
    return Link("link", output, ("g++", "-o", "{out}", "@{objects}", *more), groups)


def edge_running(script: str, *, log: str | None = "v.log") -> Edge:
    return Edge("v", None, "v.cu", "v.o", log, ("sh", "-c", script))


def test_the_file_has_one_statement_per_variant_with_its_log_as_second_output() -> None:
    text = ninja_text(
        NinjaFile(
            folder="build/x",
            edges=[EDGE],
            salts={"alpha.n1": "abc.1"},
            heavy=frozenset(),
            heavy_depth=1,
            links=[link("build/x/lib.so")],
        )
    )
    lines = text.splitlines()
    assert "build build/x/alpha.n1.o | build/x/alpha.n1.ptxas: compile csrc/a.cu" in lines
    assert "build build/x/lib.so: link build/x/alpha.n1.o" in lines
    assert "  deps = gcc" in lines
    assert any("SPARKCTL_INPUTS=abc.1" in line for line in lines)
    assert "  pool = heavy" not in lines


def test_each_link_takes_the_variants_and_its_own_groups() -> None:
    edges = [
        EDGE,
        *(Edge(f"{group}/x", None, "x.cpp", f"{group}/x.o", None, ("g++",)) for group in ("binding", "runner")),
    ]
    links = [link("lib.so", groups=("binding",)), link("run", groups=("runner",))]
    lines = ninja_text(NinjaFile("b", edges, {edge.name: "s" for edge in edges}, frozenset(), 1, links)).splitlines()
    assert "build lib.so: link binding/x.o build/x/alpha.n1.o" in lines
    assert "build run: link build/x/alpha.n1.o runner/x.o" in lines
    assert "default lib.so run" in lines


def test_heavy_edges_are_in_the_pool() -> None:
    file = NinjaFile("b", [EDGE], {"alpha.n1": "s"}, frozenset({"alpha.n1"}), 3, [link()])
    assert "  pool = heavy" in ninja_text(file).splitlines()
    assert "  depth = 3" in ninja_text(file).splitlines()


def test_stderr_of_a_good_compile_becomes_the_log(tmp_path: Path) -> None:
    done = shell(edge_running("echo ptxas info >&2; echo o > v.o"), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "v.log").read_text() == "ptxas info\n"
    assert (tmp_path / "v.o").exists()


def test_a_failed_compile_shows_its_errors_keeps_its_code_and_leaves_no_output(tmp_path: Path) -> None:
    done = shell(edge_running("echo broken >&2; echo o > v.o; exit 7"), tmp_path)
    assert (done.returncode, done.stderr) == (7, "broken\n")
    assert not (tmp_path / "v.o").exists()
    assert not (tmp_path / "v.log").exists()


def test_without_a_log_stderr_passes_through(tmp_path: Path) -> None:
    done = shell(edge_running("echo seen >&2; echo o > v.o; exit 3", log=None), tmp_path)
    assert (done.returncode, done.stderr) == (3, "seen\n")
    assert not (tmp_path / "v.o").exists()


def test_an_empty_log_where_ptxas_was_to_report_is_a_failure(tmp_path: Path) -> None:
    edge = Edge("v", None, "v.cu", "v.o", "v.log", ("sh", "-c", "echo o > v.o", "-Xptxas=-v"))
    done = shell(edge, tmp_path)
    assert done.returncode != 0
    assert "the ptxas log is empty" in done.stderr
    assert not (tmp_path / "v.o").exists()


def test_temporary_files_of_nvcc_leave_the_depfile(tmp_path: Path) -> None:
    depfile = "printf 'v.o : v.cu \\\\\\n  /tmp/tmpxft_1_a.cpp \\\\\\n  a.h\\n' > v.o.d; echo x >&2"
    assert shell(edge_running(depfile), tmp_path).returncode == 0
    assert "tmpxft_" not in (tmp_path / "v.o.d").read_text()
    assert "a.h" in (tmp_path / "v.o.d").read_text()


def test_the_launcher_comes_from_the_environment(tmp_path: Path) -> None:
    launcher = tmp_path / "my launcher"
    launcher.write_text('#!/bin/sh\necho launched > launched; exec "$@"\n')
    launcher.chmod(0o755)
    edge = edge_running("echo x >&2")
    assert shell(edge, tmp_path).returncode == 0
    assert not (tmp_path / "launched").exists()
    assert shell(edge, tmp_path, SPARKCTL_CCACHE=str(launcher)).returncode == 0
    assert (tmp_path / "launched").exists()


def test_the_library_is_replaced_whole() -> None:
    line = link_shell(link("a b/lib.so"))
    assert line.startswith("SPARKCTL_EDGE=link g++ -o 'a b/lib.so.tmp' '@a b/lib.so.rsp' && mv -f ")
    assert "mv -f 'a b/lib.so.tmp' 'a b/lib.so'" in line


def test_only_whole_words_of_the_link_stand_for_something() -> None:
    words = link_words(link("b/lib.so", "-L/a {out}"))
    assert words == ("g++", "-o", "b/lib.so.tmp", "@b/lib.so.rsp", "-L/a {out}")


def test_paths_are_escaped_and_a_pipe_is_refused() -> None:
    assert escape_path("a b:$c") == "a$ b$:$$c"
    with pytest.raises(UsageError, match="ninja cannot build"):
        escape_path("a|b")


PIECES = [*"$`'\"\\;|&:*?~#!(){}<>=% \t", "a", "é", "$out", "${in}", "$$", "$(x)", "-n"]
TEXTS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=12).map("".join)


@settings(max_examples=25, deadline=None)
@given(text=TEXTS)
def test_any_word_reaches_a_program_through_ninja_and_the_shell_unchanged(
    text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from sparkctl.toolchain import find_program

    folder = tmp_path_factory.mktemp("words")
    line = f"printf %s {shlex.quote(text)} > out"
    (folder / "build.ninja").write_text(
        f"rule r\n  command = $sh\nbuild out: r\n  sh = {escape_value(line)}\n", encoding="utf-8"
    )
    subprocess.run(
        [str(find_program("ninja", {"PATH": "/usr/bin"})), "-C", str(folder)], check=True, capture_output=True
    )
    assert (folder / "out").read_text(encoding="utf-8") == text
