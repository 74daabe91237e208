"""`sparkctl flags`: whole screens at 80 columns, JSON, and every rule of the check seen to fail."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkctl.cli.app import main

ROOT = Path(__file__).parents[2]
SAMPLE = (ROOT / "tests" / "data" / "registry" / "sample.yaml").read_text(encoding="utf-8")
SOURCES = {"one": "SPARK_DTYPE SPARK_HEAD_DIM SPARK_STAGES SPARK_BLOCKS", "two": ""}

LIST = """\
flag    kind    default  accepts  what it does
fast    nvcc    1        1, 0     Approximate math.
blocks  define  1        1..32    Minimum blocks.
"""

LIST_VERBOSE = """\
fast
  what     Approximate math.
  kind     nvcc
  default  1
  accepts  1, 0
  affects  *
  options  1 → --use_fast_math; 0 → none
  written  flags.yaml:14

blocks
  what     Minimum blocks.
  kind     define, sets SPARK_BLOCKS
  default  1
  accepts  1..32
  affects  k_one
  written  flags.yaml:21
"""

SHOW = """\
k_one.bf16.d64.s1  profile debug, sm_90
  flag    value  set by         where          default
  fast    0      profile debug  flags.yaml:12  1
  blocks  4      arch sm_90     flags.yaml:44  1

  nvcc    -O3 --extra-device-vectorization -lineinfo -Wno-a -Wno-b
  ptxas   -v
  host    -O3
  define  SPARK_DTYPE=bf16 SPARK_HEAD_DIM=64 SPARK_STAGES=1 SPARK_BLOCK=128
          SPARK_DYNAMIC_SMEM=0 SPARK_VARIANT=k_one.bf16.d64.s1
          SPARK_ACCEPTS_GROUP_MIN=1 SPARK_ACCEPTS_GROUP_MAX=64
          SPARK_ACCEPTS_KV_LEN_MIN=0 SPARK_ACCEPTS_KV_LEN_MAX=2147483647
          SPARK_BLOCKS=4 SPARK_CHECKS=1
"""

EXPLAIN = """\
k_one.fp16.d128  profile debug, sm_90a

fast = 1
     default        1  flags.yaml:17
     profile debug  0  flags.yaml:12
  →  environment    1  SPARKCTL_FLAG_FAST

blocks = 7
     default     1  flags.yaml:24
     kernel      2  flags.yaml:42
     arch sm_90  4  flags.yaml:44
  →  --set       7  -

tool    option                               from           where
nvcc    -O3                                  profile debug  flags.yaml:5
nvcc    --extra-device-vectorization         profile debug  flags.yaml:5
nvcc    -lineinfo                            profile debug  flags.yaml:10
nvcc    -Wno-a                               kernel         flags.yaml:45
nvcc    -Wno-b                               arch sm_90     flags.yaml:45
nvcc    --use_fast_math                      flag fast=1    flags.yaml:19
ptxas   -v                                   profile debug  flags.yaml:6
host    -O3                                  profile debug  flags.yaml:7
define  SPARK_DTYPE=fp16                     axis dtype     flags.yaml:35
define  SPARK_HEAD_DIM=128                   axis head_dim  flags.yaml:36
define  SPARK_STAGES=2                       axis stages    flags.yaml:37
define  SPARK_BLOCK=256                      block          flags.yaml:39
define  SPARK_DYNAMIC_SMEM=0                 dynamic_smem   flags.yaml:40
define  SPARK_VARIANT=k_one.fp16.d128        the variant    flags.yaml:29
define  SPARK_ACCEPTS_GROUP_MIN=1            accepts        flags.yaml:41
define  SPARK_ACCEPTS_GROUP_MAX=64           accepts        flags.yaml:41
define  SPARK_ACCEPTS_KV_LEN_MIN=0           accepts        flags.yaml:41
define  SPARK_ACCEPTS_KV_LEN_MAX=2147483647  accepts        flags.yaml:41
define  SPARK_BLOCKS=7                       flag blocks=7  flags.yaml:21
define  SPARK_CHECKS=1                       profile debug  flags.yaml:11
"""

CHECK_VERBOSE = """\
ok      every kernel's name matches the naming pattern
ok      every entry has its source
ok      every source has its entry
ok      every kernel has test cases
ok      every flag changes something
ok      every axis is read by a source
ok      every accepted range is read by an operator or a source
ok      no option is doubled, contradicted or the build's own
ok      at most 250 variants per arch
ok      every waiver is of a variant that is there, and has not expired
ok      every case of a suite can be read
"""

WAIVER = '    waivers:\n      - {variant: "%s", what: spills, reason: x, expires: %s}\n'

Write = Callable[..., Path]
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes the sample project, with one text replaced, into the current folder; all its kernels have cases."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sparkctl.testing.cases.kernels_with_cases", lambda: frozenset({"k_one", "k_two"}))

    def write_project(old: str = "", new: str = "", sources: dict[str, str] = SOURCES) -> Path:
        assert old in SAMPLE
        (tmp_path / "csrc").mkdir(exist_ok=True)
        for name, text in sources.items():
            (tmp_path / "csrc" / f"{name}.cu").write_text(text, encoding="utf-8")
        (tmp_path / "flags.yaml").write_text(SAMPLE.replace(old, new, 1) if old else SAMPLE, encoding="utf-8")
        return tmp_path

    return write_project


@pytest.mark.parametrize(
    ("args", "screen"),
    [
        (["flags"], LIST),
        (["flags", "list"], LIST),
        (["flags", "list", "-v"], LIST_VERBOSE),
        (["flags", "show", "k_one", "--profile", "debug", "--arch", "sm_90"], SHOW),
        (["flags", "check", "-v"], CHECK_VERBOSE),
        (["flags", "check"], "flags.yaml: nothing to mend\n"),
    ],
    ids=" ".join,
)
def test_a_screen_is_as_promised(write: Write, capsys: Capture, args: list[str], screen: str) -> None:
    write()
    assert main(args) == 0
    assert capsys.readouterr() == (screen, "")


def test_explain_gives_each_value_that_won_or_lost_and_where_it_was_written(
    write: Write, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write()
    monkeypatch.setenv("SPARKCTL_FLAG_FAST", "on")
    args = ["flags", "explain", "k_one.fp16.d128", "--profile", "debug", "--arch", "90a", "--set", "blocks=7"]
    assert main(args) == 0
    assert capsys.readouterr() == (EXPLAIN, "")


def test_explain_as_json_has_the_chain_the_options_and_the_defines(write: Write, capsys: Capture) -> None:
    write()
    assert main(["flags", "explain", "k_two", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["schema_version"], data["variant"], data["profile"], data["arch"]) == (1, "k_two", "release", None)
    location = {"file": "flags.yaml", "line": 17}
    step = {"source": "default", "value": "1", "won": True, "location": location}
    assert data["flags"] == [{"name": "fast", "value": "1", "chain": [step]}]
    assert data["options"][-1] == {
        "tool": "nvcc",
        "token": "--use_fast_math",
        "source": "flag fast=1",
        "location": {"file": "flags.yaml", "line": 19},
    }
    assert data["defines"] == {"SPARK_BLOCK": "32", "SPARK_DYNAMIC_SMEM": "0", "SPARK_VARIANT": "k_two"}


@pytest.mark.parametrize("args", [["flags", "list", "--json"], ["flags", "--json"]], ids=" ".join)
def test_list_as_json_gives_types_and_ranges(write: Write, capsys: Capture, args: list[str]) -> None:
    write()
    assert main(args) == 0
    fast, blocks = json.loads(capsys.readouterr().out)["flags"]
    assert fast["options"] == {"1": ["--use_fast_math"], "0": []}
    assert (blocks["define"], blocks["accepts"], blocks["affects"]) == (
        "SPARK_BLOCKS",
        {"min": 1, "max": 32},
        ["k_one"],
    )


# rule, text of the sample, what it becomes, sources, the line, hint
ONE = SOURCES["one"]
FINDINGS: list[tuple[str, str, str, dict[str, str], str, str | None]] = [
    (
        "name",
        "k_[a-z]+",
        "k_one",
        SOURCES,
        "flags.yaml:46: kernel 'k_two' does not match the naming pattern",
        "naming: 'k_one'",
    ),
    (
        "source",
        "csrc/two.cu",
        "csrc/twice.cu",
        {"one": ONE},
        "flags.yaml:49: kernel 'k_two': no such file 'csrc/twice.cu'",
        None,
    ),
    (
        "entry",
        "",
        "",
        SOURCES | {"three": ""},
        "project: csrc/three.cu belongs to no kernel",
        "add an entry under kernels, list it under helpers, or remove it",
    ),
    (
        "unused-flag",
        "",
        "",
        {"one": ONE.replace("SPARK_BLOCKS", "SPARK_BLOKS"), "two": ""},
        "flags.yaml:21: flag 'blocks': no source mentions SPARK_BLOCKS",
        "did you mean 'SPARK_BLOKS'?",
    ),
    (
        "unused-flag",
        "{1: [--use_fast_math], 0: []}",
        "{1: [], 0: []}",
        SOURCES,
        "flags.yaml:14: flag 'fast': every value gives the same options",
        None,
    ),
    (
        "unused-flag",
        "flags:\n",
        "flags:\n  quick: {kind: runtime, type: bool, default: 0, affects: [k_one], doc: Nothing.}\n",
        SOURCES,
        "flags.yaml:14: flag 'quick': no operator reads it",
        "known to sparkctl.ops: FAPIPE",
    ),
    (
        "unused-axis",
        "",
        "",
        {"one": ONE.replace("SPARK_STAGES", "SPARK_STAGE"), "two": ""},
        "flags.yaml:37: kernel 'k_one': no source mentions SPARK_STAGES of axis 'stages'",
        "did you mean 'SPARK_STAGE'?",
    ),
    (
        "unused-range",
        "group: 1..64",
        "gruop: 1..64",
        SOURCES,
        "flags.yaml:41: kernel 'k_one': no operator knows 'gruop', no source mentions SPARK_ACCEPTS_GRUOP_MIN or _MAX",
        "did you mean 'group'?",
    ),
    (
        "option",
        "[-Wno-a]",
        "[-O2]",
        SOURCES,
        "flags.yaml:45: nvcc option '-O2' contradicts '-O3'",
        "first in flags.yaml:5",
    ),
    (
        "option",
        "[-lineinfo]",
        "[--extra-device-vectorization]",
        SOURCES,
        "flags.yaml:10: nvcc option '--extra-device-vectorization' is given twice",
        "first in flags.yaml:5",
    ),
    (
        "option",
        "[-Wno-b]",
        "[-arch=sm_90]",
        SOURCES,
        "flags.yaml:45: nvcc option '-arch=sm_90' is set by the build itself",
        None,
    ),
    (
        "variants",
        "values: [64, 128], short: d",
        f"values: {list(range(64, 320, 2))}, short: d",
        SOURCES,
        "project: 258 variants on sm_80, more than 250",
        "fewer axis values, a require formula, or a run-time argument",
    ),
    (
        "waiver",
        "  k_two:\n",
        WAIVER % ("k_one.*", "2020-01-31") + "  k_two:\n",
        SOURCES,
        "flags.yaml:47: the waiver of k_one.* expired on 2020-01-31",
        "sparkctl regs --check says what it covered; pin it with --update, or give it another day",
    ),
    (
        "waiver",
        "  k_two:\n",
        WAIVER % ("k_two", "9999-12-31") + "  k_two:\n",
        SOURCES,
        "flags.yaml:47: no variant of k_one is k_two",
        "such as k_one.bf16.d64.s1",
    ),
]


@pytest.mark.parametrize(("rule", "old", "new", "sources", "line", "hint"), FINDINGS, ids=[row[4] for row in FINDINGS])
def test_the_check_fails_on_what_it_promises_to_find(
    write: Write,
    capsys: Capture,
    rule: str,
    old: str,
    new: str,
    sources: dict[str, str],
    line: str,
    hint: str | None,
) -> None:
    write(old, new, sources)
    assert main(["flags", "check"]) == 1
    captured = capsys.readouterr()
    assert "".join(captured.out.split()).endswith("".join((line + (f" hint: {hint}" if hint else "")).split()))
    assert captured.err.startswith("error: flags.yaml: 1 thing to mend\n")
    assert main(["flags", "check", "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["ok"] is False
    assert [(finding["rule"], finding["hint"]) for finding in data["findings"]] == [(rule, hint)]


def test_a_range_of_the_projects_own_passes_where_a_source_reads_it(write: Write) -> None:
    write("group: 1..64", "zz: 1..2", {"one": ONE + " SPARK_ACCEPTS_ZZ_MAX", "two": ""})
    assert main(["flags", "check"]) == 0


def test_a_kernel_without_cases_fails_the_check(write: Write, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    write()
    monkeypatch.setattr("sparkctl.testing.cases.kernels_with_cases", lambda: frozenset({"k_one"}))
    assert main(["flags", "check"]) == 1
    assert capsys.readouterr().out == (
        "failed  every kernel has test cases\n        flags.yaml:46: kernel 'k_two' has no test cases\n"
    )


def test_a_file_that_does_not_load_fails_the_check_and_is_a_usage_error_elsewhere(
    write: Write, capsys: Capture
) -> None:
    write("set: {blocks: 2}", "set: {block: 2}")
    expected = "error: flags.yaml:42: key kernels.k_one.set.block: unknown flag 'block'\nhint: did you mean 'blocks'?\n"
    assert main(["flags", "check"]) == 1
    assert capsys.readouterr() == ("", expected)
    assert main(["flags", "list"]) == 2
    assert capsys.readouterr() == ("", expected)


def test_the_check_passes_on_this_project(capsys: Capture) -> None:
    assert main(["--project", str(ROOT), "flags", "check"]) == 0


def test_a_glob_that_names_several_kernels_is_refused_by_explain(write: Write, capsys: Capture) -> None:
    write()
    assert main(["flags", "explain", "k_*"]) == 2
    assert capsys.readouterr().err == "error: 'k_*' names 2 kernels\nhint: name one: k_one, k_two\n"
