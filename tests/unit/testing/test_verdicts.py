"""What the last test of a variant said is kept between runs, with the code that it is about."""

from dataclasses import replace
from pathlib import Path

import pytest

from sparkctl.testing.verdicts import Verdict, VerdictBook, code_key, merge, recall, remember

CODE = {"csrc/a.cu": "11", "csrc/a.cuh": "22"}
OTHER = {"csrc/a.cu": "33"}
PASSED = Verdict(
    variant="k.bf16.d64",
    backend="emulator",
    device="the emulator",
    arch="sm_90",
    profile="release",
    sets={},
    cases=40,
    failed=0,
    whole=True,
    commit="0123456789ab",
    dirty=False,
    time="2026-01-01T00:00:00+00:00",
    code=code_key(CODE),
)
CODES = {code_key(CODE): CODE, code_key(OTHER): OTHER}


def after(*verdicts: Verdict) -> tuple[Verdict, ...]:
    book = VerdictBook()
    for verdict in verdicts:
        book = merge(book, [verdict], CODES)
    return book.verdicts


def test_the_newest_verdict_wins() -> None:
    failed = replace(PASSED, failed=3)
    assert after(PASSED, failed) == (failed,)
    assert after(failed, PASSED) == (PASSED,)


def test_a_part_that_passes_says_less_than_all_that_passed_with_the_same_code() -> None:
    part = replace(PASSED, cases=2, whole=False)
    assert after(PASSED, part) == (PASSED,)
    assert after(PASSED, replace(part, failed=1)) == (replace(part, failed=1),)
    assert after(PASSED, replace(part, code=code_key(OTHER))) == (replace(part, code=code_key(OTHER)),)
    assert after(replace(PASSED, failed=1), part) == (part,)


def test_flags_backends_and_archs_of_a_device_stand_beside_each_other() -> None:
    on_a_gpu = replace(PASSED, backend="cuda", device="NVIDIA H200")
    others = [replace(PASSED, sets={"min_blocks": "4"}), on_a_gpu, replace(on_a_gpu, arch="sm_100")]
    assert len(after(PASSED, *others)) == 4
    assert len(after(PASSED, replace(PASSED, arch="sm_80"))) == 1  # the emulator's results depend on no arch


def test_it_is_read_back_and_code_that_no_verdict_is_about_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "test" / "verdicts.json"
    remember(path, [PASSED], {code_key(CODE): CODE})
    assert recall(path).code_of(PASSED) == CODE
    changed = replace(PASSED, code=code_key(OTHER))
    remember(path, [changed], {code_key(OTHER): OTHER})
    assert recall(path) == VerdictBook((changed,), {code_key(OTHER): OTHER})


UNREADABLE = ["", "{", "[]", '{"schema_version": 2}', '{"schema_version": 1, "verdicts": [{"a": 1}]}']


@pytest.mark.parametrize("text", UNREADABLE)
def test_a_file_that_cannot_be_read_counts_as_none_and_is_written_anew(tmp_path: Path, text: str) -> None:
    path = tmp_path / "verdicts.json"
    path.write_text(text)
    assert recall(path) == VerdictBook()
    remember(path, [PASSED], CODES)
    assert recall(path).verdicts == (PASSED,)


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "test").write_text("a file")
    remember(tmp_path / "test" / "verdicts.json", [PASSED], CODES)
    assert recall(tmp_path / "test" / "verdicts.json") == VerdictBook()
