"""`sparkctl init`: what it refuses before anything is compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkctl.cli.app import main

KERNEL = "__global__ void k() {}\n"


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(["init", *words])
    return code, capsys.readouterr().err


def test_a_folder_without_sources_is_an_empty_selection(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "k.cu").write_text(KERNEL, encoding="utf-8")
    code, said = call(capsys, str(tmp_path))
    assert (code, said.splitlines()[0]) == (2, f"error: {tmp_path}: no .cu file in it or below")


def test_a_registry_that_is_there_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.cu").write_text(KERNEL, encoding="utf-8")
    (tmp_path / "flags.yaml").write_text("mine\n", encoding="utf-8")
    code, said = call(capsys, str(tmp_path))
    assert (code, said) == (2, f"error: {tmp_path}/flags.yaml is there already\nhint: --force writes it anew\n")
    assert (tmp_path / "flags.yaml").read_text(encoding="utf-8") == "mine\n"


def test_no_nvcc_is_a_missing_tool(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "k.cu").write_text(KERNEL, encoding="utf-8")
    monkeypatch.setenv("SPARKCTL_NVCC", str(tmp_path / "absent"))
    code, said = call(capsys, str(tmp_path))
    assert code == 3
    assert "SPARKCTL_NVCC names" in said
    assert not (tmp_path / "flags.yaml").exists()


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["absent"], "absent: no such folder"),
        (["--block", "2048"], "--block 2048: not accepted"),
        (["--arch", "sm_1"], "sm_1"),
    ],
)
def test_a_wrong_call_is_usage(
    words: list[str], what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, said = call(capsys, *words)
    assert code == 2
    assert what in said.splitlines()[0]
