"""`sparkctl regs FILE`: saved logs, objects and sources; damaged and foreign files; what-ifs of a launch."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from regs_project import Run, make_runner

from sparkctl.errors import SparkctlError
from sparkctl.workflows.regs_inputs import kind_of, read_log

LOGS = Path(__file__).parents[1] / "data" / "ptxas"
GOOD = sorted(path.name for path in LOGS.glob("*.log") if path.stem not in ("broken", "too-much-smem"))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return make_runner(tmp_path, monkeypatch, capsys)


def test_a_saved_log_of_two_archs_with_a_block(run: Run) -> None:
    result = run(
        str(LOGS / "two-archs.log"), "--block", "256", "--smem", "1024", "--grid", "1000", "--gpu", "A100", columns=120
    )
    lines = result.out.splitlines()
    assert "small_kernel<32, float>" in lines
    rows = [line.split() for line in lines if line.startswith("  sm_")]
    assert rows == [
        ["sm_80", "256", "10", "0", "0", "128", "1024", "1", "8", "64", "100.0", "W", "–", "1.16"],
        ["sm_90a", "256", "10", "0", "0", "128", "1024", "1", "8", "64", "100.0", "W", "–", "–"],
    ]
    assert "waves of 1000 blocks on A100, 108 SMs: blocks ÷ (blocks/SM × SMs)" in lines
    assert lines[-1] == "a saved log"


def test_without_a_block_there_is_no_occupancy_and_a_line_says_how_to_get_one(run: Run) -> None:
    result = run(str(LOGS / "barriers.log"), "--json")
    (kernel,) = json.loads(result.out)["kernels"]
    assert (kernel["block_threads"], kernel["occupancy"], kernel["next_step"], kernel["variant"]) == (
        None,
        None,
        None,
        None,
    )
    shown = run(str(LOGS / "barriers.log"), columns=120).out
    assert "occupancy needs the block's size: --block THREADS, and --smem BYTES where it is dynamic" in shown


def test_relocatable_code_is_said_and_has_no_occupancy(run: Run) -> None:
    data = json.loads(run(str(LOGS / "rdc.log"), "--block", "128", "--json").out)
    assert {kernel["occupancy"] for kernel in data["kernels"]} == {None}
    assert any("relocatable code (-rdc)" in note for note in data["notes"])


def test_an_arch_that_the_log_does_not_hold_is_refused(run: Run) -> None:
    result = run(str(LOGS / "two-archs.log"), "--arch", "sm_89")
    assert (result.code, result.err.splitlines()[0].rpartition("/")[2]) == (
        2,
        "two-archs.log: it holds sm_80 and sm_90a",
    )
    (kernel,) = json.loads(run(str(LOGS / "two-archs.log"), "--arch", "sm_90a", "--json").out)["kernels"]
    assert kernel["arch"] == "sm_90a"


@pytest.mark.parametrize("name", GOOD)
def test_every_saved_log_is_read_as_a_whole_and_in_every_form(run: Run, name: str) -> None:
    for form in ([], ["--json"], ["--csv"], ["--markdown"]):
        result = run(str(LOGS / name), "--block", "64", *form)
        assert (result.code, result.err) == (0, ""), result.err
        assert result.out


@pytest.mark.parametrize("name", ["broken", "too-much-smem"])
def test_the_log_of_a_failed_compile_is_an_error(run: Run, name: str) -> None:
    result = run(str(LOGS / f"{name}.log"))
    assert result.code == 1
    assert f"{name}.log: compiler log line 1: " in result.err


def test_what_is_no_input_is_one_clear_error(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.log").touch()
    (tmp_path / "junk.o").write_bytes(bytes(range(256)) * 8)
    (tmp_path / "junk.cu").write_bytes(bytes(range(256)) * 8)
    (tmp_path / "half.o").write_bytes(b"\x7fELF" + bytes(range(256)))
    (tmp_path / "prose.txt").write_text("nothing of a compiler\n")
    (tmp_path / "folder.log").mkdir()
    (tmp_path / "spills.log").write_text((LOGS / "spills.log").read_text())
    os.mkfifo(tmp_path / "pipe.log")
    for name, code, said in (
        ("empty.log", 2, "error: empty.log: empty\n"),
        ("junk.o", 2, "error: junk.o: neither text nor an object\n"),
        ("junk.cu", 2, "error: junk.cu: not text\n"),
        ("half.o", 3, "error: half.o: no cuobjdump to read it\n"),
        ("prose.txt", 1, "error: prose.txt: compiler log has no ptxas report\n"),
        ("folder.log", 2, "error: folder.log: a folder\n"),
        ("pipe.log", 2, "error: pipe.log: not a regular file\n"),
        ("/dev/zero", 2, "error: /dev/zero: not a regular file\n"),
        ("spill.log", 2, "error: spill.log: no such file\nhint: did you mean 'spills.log'?\n"),
        ("nowhere/x.cu", 2, "error: nowhere/x.cu: no such file\n"),
    ):
        result = run(name)
        assert (result.code, result.err[: len(said)]) == (code, said)
        assert result.out == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["spills.log", "ring"], "error: spills.log is a file and ring a kernel\n"),
        (["spills.log", "--head-dim", "64"], "error: --head-dim is for kernels of a project, not for a file\n"),
        (["spills.log", "--vs", "HEAD"], "error: --vs is for kernels of a project, not for a file\n"),
        (["spills.log", "--check"], "error: --check is for kernels of a project, not for a file\n"),
        (["spills.log", "--max-regs", "64"], "error: --max-regs compiles, and spills.log is no CUDA source\n"),
        (["ring", "--nvcc-option", "-G"], "error: --nvcc-option is for FILE.cu\n"),
        (["ring", "--block", "0"], "error: --block 0: not accepted\nhint: 1 to 1024\n"),
        (["ring", "--block", "1025"], "error: --block 1025: not accepted\n"),
        (["ring", "--smem", "-1"], "error: --smem -1: not accepted\n"),
        (["ring", "--gpu", "H200"], "error: --gpu says where a --grid runs\n"),
        (["ring", "--grid", "9", "--gpu", "H2000"], "error: unknown GPU 'H2000'\n"),
        (["ring", "--block", "64", "--check"], "error: --block is a what-if, --check is of what is launched\n"),
        (
            ["ring", "--block", "64", "--max-regs", "64"],
            "error: --block is a what-if, --max-regs is of what is launched\n",
        ),
        (
            ["spills.log", "--grid", "9", "--gpu", "H200", "--max-regs", "64"],
            "error: --grid is a what-if, --max-regs is",
        ),
        (["ring", "--max-regs", "64,x"], "error: --max-regs 64,x: 'x' is no cap\n"),
        (["ring", "--max-regs", "0"], "error: --max-regs 0: '0' is no cap\n"),
        (["ring", "--max-regs", "64,64"], "error: --max-regs 64,64: 64 is written twice\n"),
        (
            ["ring", "--max-regs", "64"],
            "error: flags.yaml has no flag max_regs of kind ptxas\nhint: add under flags:\n",
        ),
    ],
)
def test_wrong_usage(run: Run, tmp_path: Path, words: list[str], message: str) -> None:
    shutil.copy(LOGS / "spills.log", tmp_path)
    result = run(*words)
    assert result.code == 2
    assert result.err.startswith(message), result.err


def test_a_what_if_changes_the_launch_and_says_so(run: Run) -> None:
    before = json.loads(run("ring.bf16.d64", "--json").out)["kernels"][0]
    data = json.loads(run("ring.bf16.d64", "--block", "512", "--smem", "0", "--json").out)
    (after,) = data["kernels"]
    assert (before["block_threads"], before["dynamic_smem_bytes"]) == (128, 32768)
    assert (after["block_threads"], after["dynamic_smem_bytes"], after["registers"]) == (512, 0, before["registers"])
    assert after["occupancy"]["blocks_per_sm"] == 1  # 102 registers: 4 warps a sub-partition
    assert data["notes"] == ["what if: blocks of 512 threads and 0 bytes of dynamic smem, not what is launched"]


def test_a_cap_is_lowered_to_what_lets_a_block_launch() -> None:
    from sparkctl.workflows.regs_caps import clamp

    assert clamp(255, None) == 255
    assert [clamp(255, threads) for threads in (32, 256, 257, 512, 1024)] == [255, 255, 227, 128, 64]
    assert clamp(40, 1024) == 40


@settings(max_examples=150, deadline=None)
@given(name=st.sampled_from(GOOD), cut=st.integers(0, 2000))
def test_a_file_cut_anywhere_is_an_error_or_a_correct_beginning(
    tmp_path_factory: pytest.TempPathFactory, name: str, cut: int
) -> None:
    path = tmp_path_factory.mktemp("cut") / name
    whole = (LOGS / name).read_bytes()
    path.write_bytes(whole[: min(cut, len(whole))])
    everything = read_log(LOGS / name)
    try:
        kind_of(path)
        found = [usage for usage in read_log(path) if usage.is_entry]
    except SparkctlError:
        return
    expected = [(u.function, u.registers, u.spill_store_bytes) for u in everything if u.is_entry]
    assert [(u.function, u.registers, u.spill_store_bytes) for u in found] == expected[: len(found)]


def test_a_hundred_megabytes_are_read_in_little_memory(tmp_path: Path) -> None:
    """Half of it one endless line, half of it other tools' lines, and a whole report at the end."""
    path = tmp_path / "big.log"
    with path.open("w") as stream:
        stream.write("y" * 50_000_000 + "\n")
        stream.writelines(f"building step {number:030}\n" for number in range(1_000_000))
        stream.write((LOGS / "two-archs.log").read_text())
    limit = 1 << 30
    done = subprocess.run(
        [sys.executable, "-m", "sparkctl", "regs", str(path), "--block", "256", "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
    )
    assert done.returncode == 0, done.stderr
    assert [kernel["registers"] for kernel in json.loads(done.stdout)["kernels"]] == [10, 10]
