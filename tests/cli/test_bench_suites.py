"""`sparkctl bench --suite`: what it runs, prints and repeats; and where suites are listed and checked."""

from __future__ import annotations

import csv
import json
import re
import shlex
from pathlib import Path

import pytest
from test_bench import FakeSession, run, session  # noqa: F401 - a fixture

from sparkctl.cli.app import main
from sparkctl.registry import load_registry

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = (ROOT / "tests" / "data" / "registry" / "sample.yaml").read_text(encoding="utf-8")
SUITES = (
    "suites:\n  mine:\n    doc: Two of a kind.\n    cases:\n      - 1 x 4k, 32/8, d128\n      - 8 x 4k, 32/8, d128\n"
)
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")


def asked(session: FakeSession) -> list[str]:  # noqa: F811
    return [case.label for case, _, _ in session.asked]


def test_a_suite_runs_its_cases_in_its_order(session: FakeSession, capsys: Capture) -> None:  # noqa: F811
    code, out, _ = run(capsys, "--suite", "decode")
    assert code == 0
    labels = asked(session)
    assert (len(labels), labels[0], labels[-1]) == (15, "1 × 1k, 32/8, d128, bf16", "8 × 4k, 32/32, d128, bf16")
    assert "8 × 16k, 64/8" in out
    assert max(map(len, out.splitlines())) <= 80
    repeat = re.search(r"^repeat +(.*(?:\n {10}.*)*)", out, re.MULTILINE)
    assert repeat is not None
    assert " ".join(repeat[1].split()) == "sparkctl bench --suite decode --peers sdpa --budget 3 --profile release"


def test_the_printed_command_runs_the_same_cases(session: FakeSession, capsys: Capture) -> None:  # noqa: F811
    run(capsys, "--suite", "paged,gemma", "--batch", "8", "--dtype", "fp16", "--json")
    first = asked(session)
    assert len(first) == 7
    session.asked.clear()
    _, out, _ = run(capsys, "--suite", "paged,gemma", "--batch", "8", "--dtype", "fp16", "--json")
    command = json.loads(out)["command"]
    session.asked.clear()
    assert run(capsys, *shlex.split(command)[2:])[0] == 0
    assert asked(session) == first


def test_an_option_that_was_given_is_repeated_though_it_is_the_default(
    session: FakeSession,  # noqa: F811
    capsys: Capture,
) -> None:
    _, out, _ = run(capsys, "--suite", "gemma", "--batch", "1", "--qo-len", "1", "--l2", "cold", "--json")
    assert json.loads(out)["command"].startswith("sparkctl bench --suite gemma --batch 1 --qo-len 1 --l2 cold --peers")


def test_the_command_of_a_row_has_the_case_and_no_suite(session: FakeSession, capsys: Capture) -> None:  # noqa: F811
    _, out, _ = run(capsys, "--suite", "paged", "--seq", "1k", "--csv")
    (row,) = csv.DictReader(out.splitlines())
    session.asked.clear()
    assert "--suite" not in row["repeat"]
    assert run(capsys, *shlex.split(row["repeat"])[2:])[0] == 0
    assert asked(session) == ["64 × 1k, 32/8, d128, bf16, pages of 16"]


def test_a_kernel_that_takes_pages_only_gets_a_contiguous_suite_in_pages(
    session: FakeSession,  # noqa: F811
    capsys: Capture,
) -> None:
    assert run(capsys, "attn_paged_decode_split_kv", "--suite", "gemma", "--batch", "1")[0] == 0
    assert asked(session) == ["1 × 4k, 16/8, d256, bf16, pages of 16", "1 × 16k, 16/8, d256, bf16, pages of 16"]


@pytest.mark.parametrize(
    ("args", "message", "hint"),
    [
        (["--suite", "decoed"], "--suite: flags.yaml has no suite 'decoed'", "did you mean 'decode'?"),
        (["--suite", ","], "--suite is empty", ""),
        (["--suite", "short,short"], "--suite: short is written twice", "each value once"),
        (["--suite", "short", "--seq", "4k"], "--suite short has no case of --seq 4k", "--seq 64,128,256,512,1k"),
        (["--suite", "gemma", "--from", "x"], "--from takes no --suite", ""),
        (
            ["attn_decode_split_kv", "--suite", "paged"],
            "--suite: attn_decode_split_kv takes contiguous K and V only, and the suite has cases in pages",
            "name one of attn_paged_decode_split_kv_mma",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_suite_that_cannot_be_is_one_error(
    session: FakeSession,  # noqa: F811
    capsys: Capture,
    args: list[str],
    message: str,
    hint: str,
) -> None:
    code, out, err = run(capsys, *args)
    assert (code, out) == (2, "")
    assert message in err
    assert hint in err
    assert session.asked == []


def test_floors_of_a_suite_need_no_device(capsys: Capture) -> None:
    code, out, _ = run(capsys, "--suite", "decode,paged", "--estimate", "H200", "--json")
    assert code == 0
    assert len(json.loads(out)["rows"]) == 25


def test_help_and_the_list_name_every_suite(capsys: Capture) -> None:
    names = set(load_registry(ROOT / "flags.yaml").suites)
    assert main(["bench", "--help"]) == 0
    text = capsys.readouterr().out
    paragraph = text[text.index("Suites:") : text.index("Examples:")]
    assert max(map(len, paragraph.splitlines())) <= 80
    assert {word.strip(".,;:") for word in paragraph.split()} >= names
    assert main(["flags", "list", "--json"]) == 0
    assert {suite["name"] for suite in json.loads(capsys.readouterr().out)["suites"]} == names


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of its own with one suite."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sparkctl.testing.cases.kernels_with_cases", lambda: frozenset({"k_one", "k_two"}))
    (tmp_path / "csrc").mkdir()
    (tmp_path / "csrc" / "one.cu").write_text("SPARK_DTYPE SPARK_HEAD_DIM SPARK_STAGES SPARK_BLOCKS", encoding="utf-8")
    (tmp_path / "csrc" / "two.cu").touch()
    (tmp_path / "flags.yaml").write_text(f"{SAMPLE.rstrip()}\n{SUITES}", encoding="utf-8")
    return tmp_path / "flags.yaml"


LIST = """
suite  cases  what bench --suite measures
mine   2      Two of a kind.
"""

LIST_VERBOSE = """
suite mine
  what     Two of a kind.
  cases    1 x 4k, 32/8, d128
           8 x 4k, 32/8, d128
  written  flags.yaml:{line}
"""


def test_suites_are_listed_below_the_flags(sample: Path, capsys: Capture) -> None:
    assert main(["flags", "list"]) == 0
    assert capsys.readouterr().out.endswith(LIST)
    assert main(["flags", "list", "-v"]) == 0
    line = sample.read_text(encoding="utf-8").splitlines().index("  mine:") + 1
    assert capsys.readouterr().out.endswith(LIST_VERBOSE.format(line=line))


def test_check_finds_a_case_that_cannot_be_read(sample: Path, capsys: Capture) -> None:
    assert main(["flags", "check"]) == 0
    sample.write_text(sample.read_text(encoding="utf-8").replace("8 x 4k", "8 x 4q"), encoding="utf-8")
    line = sample.read_text(encoding="utf-8").splitlines().index("      - 8 x 4q, 32/8, d128") + 1
    capsys.readouterr()
    assert main(["flags", "check"]) == 1
    assert f"flags.yaml:{line}: suite 'mine': '4q' is not a size" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("    doc: Two of a kind.\n", "", "key suites.mine: needs 'doc'"),
        ("    doc:", "    docs:", "key suites.mine.docs: unknown key 'docs'"),
        ("  mine:", "  'my suite':", "key suites.my suite: a suite's name is letters, digits"),
        ("      - 1 x 4k, 32/8, d128\n", "      - 4\n", "key suites.mine.cases[0]: expected text, found 4"),
    ],
    ids=["doc", "docs", "name", "number"],
)
def test_a_mistake_in_a_suite_names_its_line_and_key(
    sample: Path, capsys: Capture, old: str, new: str, message: str
) -> None:
    sample.write_text(sample.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    assert main(["flags", "list"]) == 2
    assert message in capsys.readouterr().err
