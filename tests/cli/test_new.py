"""`sparkctl new`: what it writes, what it refuses, and that nothing half-written stays. Nothing is compiled here."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sparkctl.cli.app import main
from sparkctl.registry import load_registry
from sparkctl.workflows import new

ROOT = Path(__file__).resolve().parents[2]
FOREIGN = """\
version: 1
profiles:
  release: {doc: Plain., nvcc: [], ptxas: [-v]}
kernels:
  theirs:
    family: own
    doc: Theirs.
    source: theirs.cu
    min_arch: sm_80  # as it was
# the end
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def foreign(folder: Path) -> Path:
    (folder / "theirs.cu").write_text("__global__ void theirs() {}\n", encoding="utf-8")
    path = folder / "flags.yaml"
    path.write_text(FOREIGN, encoding="utf-8")
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_an_empty_folder_becomes_a_project(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "scale"]) == 0
    assert capsys.readouterr().out == (
        "wrote scale.cu\n"
        "wrote scale_cases.py\n"
        "wrote flags.yaml: made\n"
        "\n"
        "  sparkctl test scale     against the reference, on a GPU or the emulator\n"
        "  sparkctl regs scale     registers, spills, occupancy\n"
        "  sparkctl test scale -v  each variant's result\n"
    )
    assert names(folder) == ["flags.yaml", "scale.cu", "scale_cases.py"]
    assert main(["flags", "check"]) == 0


def test_a_tree_of_others_keeps_its_text_and_gets_an_entry(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = foreign(folder)
    (folder / "inner").mkdir()
    assert main(["--project", str(folder), "new", "scale"]) == 0
    assert "flags.yaml: one entry more, emulator: true added" in capsys.readouterr().out
    text = path.read_text(encoding="utf-8")
    assert [line for line in FOREIGN.splitlines() if line not in text.splitlines()] == []
    registry = load_registry(folder)
    assert list(registry.kernels) == ["theirs", "scale"]
    assert registry.emulator
    assert registry.kernels["scale"].cases_file == folder / "scale_cases.py"
    assert main(["flags", "check"]) == 0


def test_a_folder_inside_the_project_holds_the_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign(folder)
    (folder / "inner").mkdir()
    monkeypatch.chdir(folder / "inner")
    assert main(["new", "scale"]) == 0
    assert load_registry(folder).kernels["scale"].source == "inner/scale.cu"


def test_a_kernel_of_a_family_is_a_copy_with_its_cases(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(ROOT / "csrc", folder / "csrc")
    shutil.copy(ROOT / "flags.yaml", folder)
    assert main(["new", "attn_decode_split_kv_wgmma", "--family", "decode"]) == 0
    assert "a copy of attn_decode_split_kv, with its cases" in capsys.readouterr().out
    kernels = load_registry(folder).kernels
    made, start = kernels["attn_decode_split_kv_wgmma"], kernels["attn_decode_split_kv"]
    assert (made.cases, made.axes[0].values, made.block) == (start.name, start.axes[0].values, start.block)
    text = (folder / made.source).read_text(encoding="utf-8")
    assert "launch_attn_decode_split_kv_wgmma" in text
    before = (ROOT / "flags.yaml").read_text(encoding="utf-8")
    after = (folder / "flags.yaml").read_text(encoding="utf-8")
    assert after.startswith(before[: before.index("  stream_read:")])
    assert after.endswith(before[before.index("\nsuites:") :])


def test_a_kernel_that_a_header_defines_is_not_copied(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(ROOT / "csrc", folder / "csrc")
    shutil.copy(ROOT / "flags.yaml", folder)
    assert main(["new", "attn_prefill_split_kv", "--family", "prefill"]) == 2
    said = capsys.readouterr().err
    assert "attn_prefill_split_q is named in csrc/prefill/split_q.cuh too, a copy of its source would not do" in said
    assert not (folder / "csrc" / "prefill" / "attn_prefill_split_kv.cu").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["2x"], "error: '2x' is no kernel's name"),
        (["a-b"], "error: 'a-b' is no kernel's name"),
        (["theirs"], "error: flags.yaml:5: there is a kernel 'theirs'"),
        (["mine"], "mine.cu is there already"),
        (["x", "--family", "decode"], "error: --family decode: no kernel of it has cases"),
    ],
)
def test_what_it_refuses_leaves_the_folder_as_it_was(
    words: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign(folder)
    (folder / "mine.cu").write_text("// mine\n", encoding="utf-8")
    assert main(["new", *words]) == 2
    assert said in capsys.readouterr().err
    assert names(folder) == ["flags.yaml", "mine.cu", "theirs.cu"]
    assert (folder / "flags.yaml").read_text(encoding="utf-8") == FOREIGN


def test_a_name_outside_the_naming_pattern_is_refused_whole(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = foreign(folder)
    path.write_text(FOREIGN.replace("version: 1\n", "version: 1\nnaming: 'theirs.*'\n"), encoding="utf-8")
    assert main(["new", "scale"]) == 2
    assert "the name does not match the naming pattern" in capsys.readouterr().err
    assert names(folder) == ["flags.yaml", "theirs.cu"]


def test_kernels_in_braces_are_not_touched(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = foreign(folder)
    entry = "kernels: {theirs: {family: own, doc: T., source: theirs.cu, min_arch: sm_80}}\n"
    path.write_text(FOREIGN[: FOREIGN.index("kernels:")] + entry, encoding="utf-8")
    assert main(["new", "scale"]) == 2
    assert "kernels is written in braces" in capsys.readouterr().err
    assert names(folder) == ["flags.yaml", "theirs.cu"]


def test_what_cannot_be_written_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(target: Path, text: str) -> bool:
        raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr(new, "write_text", full)
    assert main(["new", "scale"]) == 1
    assert "flags.yaml: No space left on device" in capsys.readouterr().err
    assert names(folder) == []


def test_an_interrupt_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(target: Path, text: str) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(new, "write_text", interrupted)
    assert main(["new", "scale"]) == 130
    assert names(folder) == []
