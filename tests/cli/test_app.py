"""The frame of the program: help, errors, exit codes, laziness."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkctl import __version__
from sparkctl.cli import app
from sparkctl.cli.app import COMMANDS, hoist_globals, main
from sparkctl.errors import MissingTool, UsageError, WorkFailed

ROOT = Path(__file__).parents[2]
Capture = pytest.CaptureFixture[str]
Raise = Callable[[BaseException], None]

HELP_START = """\
Usage: sparkctl [OPTIONS] COMMAND …

  The command-line kernel development toolkit for CUDA: edit a kernel, then
  build, regs, test and bench.

  Examples:
    sparkctl list                             what there is and what is built
    sparkctl build --arch sm_90a              compile what changed for one arch
    sparkctl regs attn_decode_split_kv_mma    registers, spills and occupancy
    sparkctl test 'attn_decode_*' --head-dim 128
    sparkctl bench --seq 4k,16k
    sparkctl flags explain attn_combine       which source set which flag

  Exit codes: 0 done, 1 the work failed, 2 wrong usage or an empty selection,
  3 a tool or device is missing, 130 interrupted.

Options:
  --project DIR         The folder with flags.yaml; else this one or one
                        above.
  -v, --verbose         More detail; twice for more.
  -q, --quiet           Results and errors only.
  --no-color            No colour; NO_COLOR does the same.
  --debug               Show the traceback of an error.
  --version             Show the version and stop.
  --install-completion  Install completion for the current shell.
  --show-completion     Show completion for the current shell, to copy it or
                        customize the installation.
  -h, --help            Show this message and exit.

Commands:
"""


@pytest.fixture
def list_raises(monkeypatch: pytest.MonkeyPatch) -> Raise:
    """Makes `sparkctl list` raise something."""

    def arm(error: BaseException) -> None:
        def take_inventory(*_: object) -> None:
            raise error

        monkeypatch.chdir(ROOT)
        monkeypatch.setattr("sparkctl.workflows.inventory.take_inventory", take_inventory)

    return arm


def run(*args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """The program as its own process, from the project's folder."""
    return subprocess.run(
        [sys.executable, "-m", "sparkctl.cli.app", *args],
        cwd=ROOT,
        env=os.environ | environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("args", [["--help"], ["-h"], [], ["-v"]], ids=" ".join)
def test_help_is_the_promised_screen(capsys: Capture, monkeypatch: pytest.MonkeyPatch, args: list[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(args) == 0
    out = capsys.readouterr().out
    assert out.startswith(HELP_START)
    assert [line.split()[0] for line in out[len(HELP_START) :].splitlines()] == [row.name for row in COMMANDS]


@pytest.mark.parametrize("columns", ["80", "120"])
@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_the_help_of_every_command_has_examples_and_fits(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, row: app.CommandRow, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert main([row.name, "--help"]) == 0
    out = capsys.readouterr().out
    assert "Examples:" in out
    assert "--json" in out
    assert not out.partition("Commands:")[2].count("..."), "a summary is cut"
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("name", ["list", "show", "explain", "check"])
def test_the_help_of_every_flags_command_has_examples(capsys: Capture, name: str) -> None:
    assert main(["flags", name, "--help"]) == 0
    out = capsys.readouterr().out
    assert "Examples:" in out
    assert "--json" in out


def test_every_row_has_its_module_and_every_module_its_row() -> None:
    frame = {"__init__", "app", "options"}
    rows = {row.name for row in COMMANDS}
    modules = {path.stem for path in (ROOT / "sparkctl" / "cli").glob("*.py")} - frame
    helpers = {name for name in modules if name.startswith(tuple(f"{row}_" for row in rows))}
    assert modules - helpers == rows


HEAVY = ["torch", "numpy", "tvm_ffi", "pydantic", "rich", "yaml", "sparkctl.registry"]
PROBE = """
import json, sys
from sparkctl.cli.app import main
code = main(sys.argv[1:])
print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)
"""


@pytest.mark.parametrize("args", [["--help"], [], ["--no-color", "-h"]], ids=" ".join)
def test_help_imports_nothing_heavy(args: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", PROBE, *args], capture_output=True, text=True, timeout=60, check=True)
    code, modules = json.loads(done.stderr)
    assert code == 0
    assert not [name for name in HEAVY if name in modules]


@pytest.mark.parametrize("args", [["flags", "list"], ["list"], ["build", "--help"], ["test", "--help"]], ids=" ".join)
def test_commands_that_need_no_library_import_no_torch(args: list[str]) -> None:
    command = [sys.executable, "-c", PROBE, "--project", str(ROOT), *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    code, modules = json.loads(done.stderr.splitlines()[-1])
    assert code == 0
    assert not [name for name in ("torch", "numpy", "tvm_ffi") if name in modules]


def test_version(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"sparkctl {__version__}\n"


USAGE = [
    (["biuld"], "error: no command 'biuld'\nhint: did you mean 'build'?\n"),
    (["--verson"], "error: no such option: --verson\nhint: did you mean '--version'?\n"),
    (["flags", "lst"], "error: no such command 'lst'\nhint: did you mean 'list'?\n"),
    (["flags", "show"], "error: missing argument 'KERNEL'\nhint: sparkctl flags show --help\n"),
    (["list", "--jsn"], "error: no such option: --jsn\nhint: did you mean '--json'?\n"),
    (["--project"], "error: option '--project' requires an argument\nhint: sparkctl --help\n"),
    (["regs", "--arch"], "error: option '--arch' requires an argument\nhint: sparkctl regs --help\n"),
    (["flags", "show", "--arch"], "error: option '--arch' requires an argument\nhint: sparkctl flags show --help\n"),
    (["flags", "--json", "check"], "error: --json before 'check'\nhint: sparkctl flags check … --json\n"),
    (
        ["build", "--backend", "gpu"],
        "error: invalid value for '--backend': 'gpu' is not one of 'cuda', 'emulator'\nhint: sparkctl build --help\n",
    ),
    (["--debug", "--"], "error: missing command\nhint: sparkctl --help\n"),
]


@pytest.mark.parametrize(("args", "err"), USAGE, ids=[" ".join(row[0]) for row in USAGE])
def test_wrong_usage_is_one_clear_error_and_exits_2(capsys: Capture, args: list[str], err: str) -> None:
    assert main(args) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.partition("Traceback")[0] == err


KINDS = [
    (WorkFailed("the build failed\nwith two lines", hint="fix it"), 1, "the build failed\n       with two lines"),
    (UsageError("no such thing", hint="fix it"), 2, "no such thing"),
    (MissingTool("no nvcc", hint="fix it"), 3, "no nvcc"),
]


@pytest.mark.parametrize(("error", "code", "text"), KINDS, ids=["work", "usage", "tool"])
def test_an_error_prints_what_and_what_next_and_sets_the_exit_code(
    capsys: Capture, list_raises: Raise, error: Exception, code: int, text: str
) -> None:
    list_raises(error)
    assert main(["list"]) == code
    assert capsys.readouterr() == ("", f"error: {text}\nhint: fix it\n")


def test_a_bug_is_one_line_and_debug_shows_where(capsys: Capture, list_raises: Raise) -> None:
    list_raises(KeyError("x"))
    assert main(["list"]) == 1
    line = "error: a bug in sparkctl: KeyError: 'x'\nhint: sparkctl --debug … shows where; please report it with that\n"
    assert capsys.readouterr().err == line
    assert main(["list", "--debug"]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_the_module_exits_with_the_programs_code() -> None:
    done = subprocess.run([sys.executable, "-m", "sparkctl", "biuld"], capture_output=True, timeout=60, check=False)
    assert done.returncode == 2


def test_an_interrupt_while_modules_are_read_ends_as_any_other() -> None:
    program = (
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'sparkctl.cli.app': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from sparkctl.__main__ import run\n"
        "sys.exit(run())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (130, b"error: interrupted\n")


def test_an_operating_system_error_is_no_bug(capsys: Capture, list_raises: Raise) -> None:
    list_raises(PermissionError(13, "Permission denied", "/x/y"))
    assert main(["list"]) == 1
    assert capsys.readouterr().err == "error: /x/y: Permission denied\n"


def test_an_interrupt_exits_130(capsys: Capture, list_raises: Raise) -> None:
    list_raises(KeyboardInterrupt())
    assert main(["list"]) == 130
    assert capsys.readouterr().err == "error: interrupted\n"


@pytest.mark.parametrize("args", [["list"], ["list", "--json"], ["flags", "explain", "attn_combine"]], ids=" ".join)
def test_a_reader_that_goes_away_is_no_error(args: list[str]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "sparkctl.cli.app", *args],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=60) == 141


def test_a_full_disk_under_stdout_is_an_error() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "sparkctl.cli.app", "list"],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.startswith("error: No space left on device\n")


@pytest.mark.parametrize(("args", "environ"), [([], {}), (["--no-color"], {"FORCE_COLOR": "1"})])
def test_a_pipe_and_no_color_get_no_escapes(args: list[str], environ: dict[str, str]) -> None:
    done = run(*args, "flags", "explain", "attn_combine", **environ)
    assert done.returncode == 0
    assert "\033" not in done.stdout


def test_no_color_in_the_environment_wins_over_forced_colour() -> None:
    assert "\033" in run("list", FORCE_COLOR="1").stdout
    assert "\033" not in run("list", FORCE_COLOR="1", NO_COLOR="1").stdout


HOISTED = [
    (["list", "-v"], ["-v", "list"]),
    (["build", "--project", "x", "k"], ["--project", "x", "build", "k"]),
    (["build", "--project=x", "-q"], ["--project=x", "-q", "build"]),
    (["test", "--", "-v"], ["test", "--", "-v"]),
    (["list", "--project"], ["--project", "list"]),
]


@pytest.mark.parametrize(("args", "expected"), HOISTED)
def test_global_options_may_follow_the_command(args: list[str], expected: list[str]) -> None:
    assert hoist_globals(args) == expected


def complete(line: str) -> list[str]:
    done = run(_SPARKCTL_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(line.split(" ")) - 1))
    return done.stdout.split()


def test_a_shell_completes_commands_kernels_profiles_archs_and_flags() -> None:
    assert complete("sparkctl re") == ["regs"]
    assert complete("sparkctl list attn_c") == ["attn_combine"]
    assert complete("sparkctl flags show attn_combine --profile de") == ["debug"]
    assert complete("sparkctl flags show attn_combine --arch sm_80,sm_8") == [
        "sm_80,sm_80",
        "sm_80,sm_86",
        "sm_80,sm_87",
        "sm_80,sm_88",
        "sm_80,sm_89",
    ]
    assert complete("sparkctl flags show attn_combine --set fast") == ["fast_math="]
