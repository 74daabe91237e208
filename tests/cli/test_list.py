"""`sparkctl list`: whole screens at 80 and 120 columns, in a pipe, and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkctl.cli.app import main
from sparkctl.runtime.manifest import BuiltVariant, Manifest, write_manifest
from sparkctl.testing.cases import stream_cases
from sparkctl.testing.model import StreamCase

SAMPLE = (Path(__file__).parents[1] / "data" / "registry" / "sample.yaml").read_text(encoding="utf-8")
LONG = "A kernel with a description that is too long for one line of eighty columns, so that it folds."

SCREEN_80 = """\
k_one  6 variants, one, sm_80 and later
  A kernel with a description that is too long for one line of eighty columns,
  so that it folds.
  axes     dtype bf16, fp16
           head_dim 64, 128
           stages 1, 2 (default 2)
  accepts  group 1..64, kv_len 0..
  source   csrc/one.cu
  cases    none
  built    cuda sm_90a release fast=0: 2 of 6
           emulator sm_80 release: 1 of 6

k_two  1 variant, two, sm_90 and later
  The second.
  source  csrc/two.cu
  cases   none
  built   no
"""

SCREEN_120 = SCREEN_80.replace("columns,\n  so", "columns, so")

WITH_CASES = """\
  source   csrc/one.cu
  cases    quick 2, full 4, device 3
"""

CASES_80 = """\

  set           case
  quick         bytes16-blocks1
  quick         bytes32-blocks3
  full, device  bytes64-blocks5
  full          bytes80-blocks5
"""

VARIANTS_80 = """\

  variant            threads  dynamic smem  built
  k_one.bf16.d64.s1      128           0 B  -
  k_one.bf16.d64         128           0 B  cuda sm_90a release, emulator sm_80
                                            release
  k_one.bf16.d128        256           0 B  cuda sm_90a release
  k_one.fp16.d64.s1      128           0 B  -
  k_one.fp16.d64         128           0 B  -
  k_one.fp16.d128        256           0 B  -
"""

Capture = pytest.CaptureFixture[str]


def build(folder: Path, backend: str, arch: str, names: list[str], flags: dict[str, str]) -> None:
    target = folder / "build" / f"{backend}-{arch}-release"
    target.mkdir(parents=True)
    variants = tuple(
        BuiltVariant(
            name=name,
            kernel="k_one",
            family="one",
            values={},
            accepts={},
            block_threads=128,
            dynamic_smem_bytes=0,
            static_smem_bytes=None,
            registers=None,
            blocks_per_sm=None,
        )
        for name in names
    )
    write_manifest(target, Manifest("lib.so", backend, arch, "release", flags, "0", "", variants))  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPARKCTL_BUILD_DIR", raising=False)
    (tmp_path / "csrc").mkdir()
    for name in ("one", "two"):
        (tmp_path / "csrc" / f"{name}.cu").touch()
    (tmp_path / "flags.yaml").write_text(SAMPLE.replace("The first.", LONG), encoding="utf-8")
    build(tmp_path, "cuda", "sm_90a", ["k_one.bf16.d64", "k_one.bf16.d128", "k_gone.bf16"], {"fast": "0"})
    build(tmp_path, "emulator", "sm_80", ["k_one.bf16.d64"], {})
    return tmp_path


@pytest.mark.parametrize(("columns", "screen"), [("80", SCREEN_80), ("120", SCREEN_120)])
def test_kernels_are_listed_with_axes_ranges_and_what_is_built(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, columns: str, screen: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert main(["list"]) == 0
    assert capsys.readouterr() == (screen, "")


def test_a_pipe_gets_whole_lines(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert main(["list"]) == 0
    assert f"\n  {LONG}\n" in capsys.readouterr().out


@pytest.mark.parametrize("args", [["list", "k_one"], ["list", "k_o*"], ["list", "k_one", "--no-color"]], ids=" ".join)
def test_a_named_kernel_shows_its_variants(capsys: Capture, monkeypatch: pytest.MonkeyPatch, args: list[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(args) == 0
    assert capsys.readouterr().out == SCREEN_80[: SCREEN_80.index("\nk_two")] + VARIANTS_80


def test_verbose_shows_the_variants_of_every_kernel(capsys: Capture) -> None:
    assert main(["list", "-v"]) == 0
    out = capsys.readouterr().out
    assert "k_one.fp16.d64.s1" in out
    assert out.count("dynamic smem") == 2


def test_json_has_everything(capsys: Capture) -> None:
    assert main(["list", "k_one.bf16.*", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["schema_version"] == 1
    (kernel,) = data["kernels"]
    assert kernel["accepts"] == {"group": {"min": 1, "max": 64}, "kv_len": {"min": 0, "max": None}}
    assert kernel["axes"][2] == {"name": "stages", "values": [1, 2], "short": "s", "default": 2}
    assert [variant["name"] for variant in kernel["variants"]] == [
        "k_one.bf16.d64.s1",
        "k_one.bf16.d64",
        "k_one.bf16.d128",
    ]
    assert kernel["built"][0] == {
        "folder": "build/cuda-sm_90a-release",
        "backend": "cuda",
        "arch": "sm_90a",
        "profile": "release",
        "flags": {"fast": "0"},
        "variants": ["k_one.bf16.d64", "k_one.bf16.d128"],
        "possible": 3,
    }


@pytest.fixture
def three_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases for k_one alone, four in all."""

    def cases(grid: str) -> tuple[StreamCase, ...]:
        quick = (StreamCase(16), StreamCase(32, 3))
        return (
            quick + {"quick": (), "full": (StreamCase(64, 5), StreamCase(80, 5)), "device": (StreamCase(64, 5),)}[grid]
        )

    monkeypatch.setattr("sparkctl.testing.cases.CASES", {"k_one": cases})


@pytest.mark.usefixtures("three_sets")
def test_the_cases_of_each_set_are_counted_and_on_request_listed(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    counted = SCREEN_80.replace("  source   csrc/one.cu\n  cases    none\n", WITH_CASES)
    assert main(["list"]) == 0
    assert capsys.readouterr().out == counted
    one = counted[: counted.index("\nk_two")]
    assert main(["list", "k_one", "--cases"]) == 0
    assert capsys.readouterr().out == one + CASES_80
    assert main(["list", "k_one", "--cases", "-v"]) == 0
    assert capsys.readouterr().out == one + VARIANTS_80 + CASES_80


@pytest.mark.usefixtures("three_sets")
def test_json_counts_the_cases_and_on_request_has_their_ids(capsys: Capture) -> None:
    assert main(["list", "--json"]) == 0
    one, two = json.loads(capsys.readouterr().out)["kernels"]
    assert one["cases"] == {"quick": 2, "full": 4, "device": 3}
    assert two["cases"] == {}
    assert "case_ids" not in one
    assert main(["list", "--cases", "--json"]) == 0
    one, two = json.loads(capsys.readouterr().out)["kernels"]
    assert one["case_ids"][1:3] == [
        {"id": "bytes32-blocks3", "grids": ["quick", "full", "device"]},
        {"id": "bytes64-blocks5", "grids": ["full", "device"]},
    ]
    assert two["case_ids"] == []


def test_every_listed_id_is_one_that_k_selects(capsys: Capture) -> None:
    assert main(["--project", str(Path(__file__).parents[2]), "list", "stream_read", "--cases", "--json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    listed = {case["id"] for case in kernel["case_ids"]}
    assert listed == {case.id for grid in ("quick", "full", "device") for case in stream_cases(grid)}


def test_an_unreadable_manifest_is_a_warning_and_the_rest_is_listed(project: Path, capsys: Capture) -> None:
    (project / "build" / "cuda-sm_90a-release" / "manifest.json").write_text("{", encoding="utf-8")
    assert main(["list"]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("warning:")
    assert "manifest.json: not a readable manifest" in captured.err.replace("\n", "")
    assert "emulator sm_80 release: 1 of 6" in captured.out


def test_an_unknown_kernel_is_refused_with_a_guess(capsys: Capture) -> None:
    assert main(["list", "k_tow"]) == 2
    assert capsys.readouterr() == ("", "error: unknown kernel 'k_tow'\nhint: did you mean 'k_two'?\n")


def test_where_nothing_names_a_project_a_message_says_which_is_used(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(__file__).parents[2]
    (tmp_path / "flags.yaml").unlink()
    said = f"using the kernels that come with sparkctl: {root}\nhint: --project DIR names another project\n"
    for args in (["list"], ["flags", "list"], ["flags", "check"]):
        assert main(args) == 0
        assert capsys.readouterr().err == said
    monkeypatch.chdir(root / "csrc")
    for args in (["list"], ["list", "--project", str(root)]):
        assert main(args) == 0
        assert capsys.readouterr().err == ""
    monkeypatch.chdir(tmp_path)
    assert main(["list", "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_a_registry_that_is_a_folder_is_wrong_usage(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "flags.yaml").unlink()
    (tmp_path / "flags.yaml").mkdir()
    assert main(["list"]) == 2
    assert capsys.readouterr().err.startswith(f"error: {tmp_path.resolve()}/flags.yaml: a folder, not a file\n")


def test_libraries_are_looked_for_where_they_are_built(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    build(elsewhere, "cuda", "sm_100", ["k_one.bf16.d64"], {})
    monkeypatch.setenv("SPARKCTL_BUILD_DIR", str(elsewhere / "build"))
    assert main(["list", "k_one", "--json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    assert [built["folder"] for built in kernel["built"]] == [f"{elsewhere}/build/cuda-sm_100-release"]
