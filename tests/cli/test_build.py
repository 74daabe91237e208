"""Whole screens of `sparkctl build`, on a tiny project built for the emulator."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REGISTRY = """\
version: 1
profiles:
  release: {doc: Plain., nvcc: [], ptxas: [-v], host: [-O0]}
flags:
  level:
    kind: define
    type: int
    default: 1
    define: TINY_LEVEL
    affects: ['*']
    doc: A number.
    reason: Tests.
kernels:
  alpha:
    family: tiny
    doc: Scales.
    source: csrc/alpha.cu
    min_arch: sm_80
    axes:
      size: {values: [1, 2], short: n}
    block: 32
    dynamic_smem: 0
    accepts: {}
  beta_with_a_rather_long_name:
    family: tiny
    doc: Adds.
    source: csrc/beta.cu
    min_arch: sm_90
    axes:
      size: {values: [1], short: n}
    block: 32
    dynamic_smem: 0
    accepts: {}
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "csrc").mkdir()
    (tmp_path / "flags.yaml").write_text(REGISTRY)
    (tmp_path / "csrc/alpha.cu").write_text('#include "tiny.h"\nstatic int alpha = SPARK_SIZE * FACTOR + TINY_LEVEL;\n')
    (tmp_path / "csrc/beta.cu").write_text("static int beta = SPARK_SIZE + TINY_LEVEL;\n")
    (tmp_path / "csrc/tiny.h").write_text("#define FACTOR 2\n")
    return tmp_path


@pytest.fixture
def run(project: Path, cache: Path):
    def call(*args: str, **environ: str) -> subprocess.CompletedProcess[str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        env = {**kept, "SPARKCTL_CACHE_DIR": str(cache), "COLUMNS": "80", **environ}
        command = [sys.executable, "-m", "sparkctl.cli.app", "build", *args]
        return subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, timeout=120, check=False)

    return call


EMULATOR = ("--backend", "emulator", "-j2")


def steady(text: str, project: Path) -> str:
    """Numbers that differ from run to run as `#`, the project's folder as PROJECT."""
    text = re.sub(r"(  compiler ) g\+\+ .* at /.*/g\+\+ \(PATH\)", r"\1 G++", text.replace(str(project), "PROJECT"))
    return re.sub(r" *\d+\.\d+( s)?", r" #\1", text)


def test_a_first_build_lists_every_edge_and_its_totals(run, project: Path) -> None:
    done = run(*EMULATOR, CCACHE_DISABLE="1")
    assert (done.returncode, done.stderr) == (0, "")
    screen = steady(re.sub(r"(?m)( +\d+)$|^  memory.*\n", "", done.stdout), project)
    slowest = sorted(re.findall(r"^(?:  slowest)? # s  (\S+)$", screen, re.MULTILINE))
    assert slowest == ["alpha.n1", "alpha.n2", "beta_with_a_rather_long_name.n1"]
    assert [line.rstrip() for line in screen.splitlines() if " # s  " not in line] == [
        "variant                          status  time s  saved s  peak MiB",
        "alpha.n1                         built #",
        "alpha.n2                         built #",
        "beta_with_a_rather_long_name.n1  built #",
        "emulator-sm_90-release: 3 built in # s",
        "  compiler  G++",
        "  jobs      2 (-j)",
        "  library   PROJECT/build/emulator-sm_90-release/libsparkctl.so",
    ]


def test_a_second_build_is_two_lines(run, project: Path) -> None:
    run(*EMULATOR)
    done = run(*EMULATOR)
    assert steady(done.stdout, project) == (
        "emulator-sm_90-release: 3 up to date in # s\n  library   PROJECT/build/emulator-sm_90-release/libsparkctl.so\n"
    )


def test_explain_names_what_changed(run, project: Path) -> None:
    run(*EMULATOR)
    (project / "csrc/tiny.h").write_text(f"#define FACTOR {os.getpid()}\n")
    done = run(*EMULATOR, "--explain", CCACHE_DISABLE="1")
    lines = [line.rstrip() for line in steady(done.stdout, project).splitlines()]
    assert lines[:4] == [
        "variant   status  time s  why",
        "alpha.n1  built #  csrc/tiny.h changed",
        "alpha.n2  built #  csrc/tiny.h changed",
        "emulator-sm_90-release: 2 built, 1 up to date in # s",
    ]


def test_hits_are_counted_with_what_they_saved(run, project: Path) -> None:
    run(*EMULATOR)
    shutil.rmtree(project / "build")
    done = run(*EMULATOR)
    assert "emulator-sm_90-release: 3 cached in # s\n" in steady(done.stdout, project)
    ratio = "about # times as fast as without the cache"
    assert f"  cache     3 hits, # s of compiling saved: {ratio}\n" in steady(done.stdout, project)


def test_with_v_the_compilers_line_says_why_it_was_chosen(run, project: Path) -> None:
    run(*EMULATOR)
    assert re.search(r"^  compiler  g\+\+ .* at /.*/g\+\+ \(PATH: CXX not set\)$", run(*EMULATOR, "-v").stdout, re.M)


def test_json_has_the_compiler_and_what_the_cache_saved(run, project: Path) -> None:
    run(*EMULATOR)
    shutil.rmtree(project / "build")
    (library,) = json.loads(run(*EMULATOR, "--json").stdout)["libraries"]
    assert library["compiler"]["source"] == "PATH"
    assert library["compiler"]["path"].endswith("/g++")
    assert library["cache"]["hits"] == 3
    assert library["cache"]["saved_s"] > 0
    assert library["cache"]["times_as_fast"] > 1


def test_the_dry_run_prints_commands_that_a_shell_can_run(run, project: Path) -> None:
    done = run(*EMULATOR, "--dry-run", "--explain", "alpha", "--where", "size=1")
    assert not (project / "build").exists()
    lines = done.stdout.splitlines()
    assert lines[0] == "# emulator-sm_90-release: 1 to compile and 1 library to link, 0 up to date"
    assert lines[1] == f"cd {project}"
    assert "# alpha.n1: not built in this folder yet" in lines
    shell = subprocess.run(["/bin/sh", "-eu"], input=done.stdout, text=True, capture_output=True, check=False)
    assert shell.returncode == 0, shell.stderr
    assert (project / "build/emulator-sm_90-release/libsparkctl.so").exists()


def test_a_dry_run_with_nothing_to_do_is_one_line(run) -> None:
    run(*EMULATOR)
    assert run(*EMULATOR, "--dry-run").stdout == "# emulator-sm_90-release: 0 to compile, 3 up to date\n"


def test_json_is_one_object(run, project: Path) -> None:
    data = json.loads(run(*EMULATOR, "--json", "alpha").stdout)
    assert list(data) == ["schema_version", "command", "ok", "jobs", "jobs_reason", "notes", "libraries"]
    assert (data["schema_version"], data["ok"], data["jobs"]) == (1, True, 2)
    (library,) = data["libraries"]
    assert library["library"] == str(project / "build/emulator-sm_90-release/libsparkctl.so")
    assert [(edge["name"], edge["kind"]) for edge in library["edges"]] == [
        ("alpha.n1", "variant"),
        ("alpha.n2", "variant"),
    ]
    dry = json.loads(run(*EMULATOR, "--json", "--dry-run").stdout)
    assert [step["name"] for step in dry["libraries"][0]["steps"]] == ["beta_with_a_rather_long_name.n1", "link"]


def test_several_archs_make_several_libraries(run, project: Path) -> None:
    done = run(*EMULATOR, "--arch", "sm_80,sm_90,8.0")
    assert done.returncode == 0, done.stderr
    assert steady(done.stdout, project).count("library   PROJECT/build/emulator-sm_") == 2
    assert (project / "build/emulator-sm_80-release/obj/alpha.n1.o").exists()
    assert not (project / "build/emulator-sm_80-release/obj/beta_with_a_rather_long_name.n1.o").exists()


def test_a_failure_shows_the_compilers_output_and_exits_1(run, project: Path) -> None:
    (project / "csrc/alpha.cu").write_text("oops\n")
    done = run(*EMULATOR)
    assert done.returncode == 1
    assert steady(done.stdout, project).splitlines()[-1] != "library"
    assert "error: alpha.n1 failed (emulator-sm_90-release), exit code 1\n" in done.stderr
    assert "csrc/alpha.cu:1:1: error: ‘oops’ does not name a type" in done.stderr
    assert done.stderr.count("error: ‘oops’") == 1
    assert "the same in 1 more variant: alpha.n2\n" in done.stderr
    log = project / "build/emulator-sm_90-release/failures.log"
    assert f"hint: the rest is built; every failure in full: {log}\n" in done.stderr
    assert log.read_text().count("error: ‘oops’") == 2
    data = json.loads(run(*EMULATOR, "--json").stdout)
    assert sum("error: ‘oops’" in (edge["output"] or "") for edge in data["libraries"][0]["edges"]) == 2


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("alpa",), "error: unknown kernel 'alpa'"),
        (("--arch", "sm_9"), "error: arch 'sm_9' is not understood"),
        (("--where", "size=3"), "error: axis size: unknown value '3'"),
        (("--set", "levl=1"), "error: --set: unknown flag 'levl'"),
        (("--profile", "relase"), "error: unknown profile 'relase'"),
        (("beta*", "--arch", "sm_80"), "error: nothing selected runs on sm_80"),
        (("-j", "0"), "error: "),
        (("--backend", "cpu"), "error: invalid value for '--backend': 'cpu' is not one of 'cuda', 'emulator'\n"),
    ],
)
def test_wrong_usage_exits_2_before_anything_is_made(run, project: Path, args: tuple[str, ...], message: str) -> None:
    done = run("--backend", "emulator", *args)
    assert done.returncode == 2
    assert done.stderr.startswith(message), done.stderr
    assert done.stdout == ""
    assert not (project / "build").exists()


def test_a_mistake_in_the_registry_exits_2_with_its_line(run, project: Path) -> None:
    (project / "flags.yaml").write_text(REGISTRY.replace("min_arch", "min_arhc"))
    done = run(*EMULATOR)
    assert done.returncode == 2
    assert "flags.yaml:" in done.stderr
    assert "min_arhc" in done.stderr


def test_a_missing_nvcc_exits_3_and_says_what_to_install(run, tmp_path: Path) -> None:
    done = run("--nvcc", str(tmp_path / "none"))
    assert done.returncode == 3
    assert done.stderr.startswith(f"error: --nvcc names {tmp_path / 'none'}, which is not there\n")


def test_a_missing_compiler_exits_3(run, tmp_path: Path) -> None:
    done = run("--backend", "emulator", PATH=str(tmp_path))
    assert done.returncode == 3
    assert done.stderr == "error: no g++ on PATH\nhint: install g++ (apt install g++), or name one in CXX\n"


def test_help_has_examples(run) -> None:
    done = run("--help")
    assert done.returncode == 0
    assert "sparkctl build --arch sm_89,sm_90a" in done.stdout
    for option in ("--backend", "--explain", "--dry-run", "--jobs", "--nvcc", "--set", "--profile", "--json"):
        assert option in done.stdout
