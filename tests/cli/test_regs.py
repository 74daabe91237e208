"""`sparkctl regs`: whole screens over made-up compiler logs; tests/nvcc/test_regs.py compiles real ones."""

# ruff: noqa: E501 - screens are as wide as they are

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from regs_project import NUMBERS, Run, make_runner

from sparkctl.testing.verdicts import Verdict, code_key, remember
from sparkctl.toolchain import HostCompiler, Toolchain, hash_files


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return make_runner(tmp_path, monkeypatch, capsys)


def screen(text: str) -> str:
    return text.strip("\n")


def test_in_120_columns_kernels_are_headings_and_every_number_has_its_column(run: Run) -> None:
    result = run("ring", "merge", columns=120)
    assert result.code == 0
    assert result.out == screen("""
                             spill         static  dynamic
             block           st/ld  stack    smem     smem       blk  wrp    occ
variant    threads  regs         B      B       B        B  bar  /SM  /SM      %  lim  next step

ring  sm_90
bf16.d64       128   102         0      0     512    32768    1    4   16   25.0  R    5: −6 regs
bf16.d256      512   128  !136/116    112    2048   131072    4    1   16   25.0  R+S  2: −64 regs −17408 B
fp16.d64       128    96         0      0     512    32768    1    5   20   31.3  R    6: −16 regs
fp16.d256      512   255         0      0    2048   131072    1    0    0    0.0  R    1: −127 regs

merge  sm_90
bf16           128    32         0      0    2048        0    1   16   64  100.0  W+R  –

! registers spilled to local memory: 1 of 5 kernels
! ring.fp16.d256 cannot launch on sm_90: too many registers
lim: W warps, R registers, S shared memory, B blocks, Bar barriers
static smem is the compiler's, dynamic smem flags.yaml's; occupancy counts both and 1024 B reserved per block
sparkctl test of 5 variants: 5 not tested
nvcc 13.0.88, profile release
""")


def test_in_80_columns_spills_share_a_column_and_limiters_are_letters(run: Run) -> None:
    assert run("ring", "merge", columns=80).out == screen("""
                    spill         static  dynamic
                    st/ld  stack    smem     smem       blk  wrp    occ
variant    regs         B      B       B        B  bar  /SM  /SM      %  lim

ring  sm_90  128 or 512 threads
bf16.d64    102         0      0     512    32768    1    4   16   25.0  R
bf16.d256   128  !136/116    112    2048   131072    4    1   16   25.0  R+S
fp16.d64     96         0      0     512    32768    1    5   20   31.3  R
fp16.d256   255         0      0    2048   131072    1    0    0    0.0  R

merge  sm_90  128 threads
bf16         32         0      0    2048        0    1   16   64  100.0  W+R

! registers spilled to local memory: 1 of 5 kernels
! ring.fp16.d256 cannot launch on sm_90: too many registers
lim: W warps, R registers, S shared memory, B blocks, Bar barriers
static smem is the compiler's, dynamic smem flags.yaml's; occupancy counts both
and 1024 B reserved per block
sparkctl test of 5 variants: 5 not tested
nvcc 13.0.88, profile release
""")


def test_several_archs_stand_below_each_other_under_their_variant(run: Run) -> None:
    assert run("ring", "--dtype", "bf16", "--arch", "sm_86,sm_90a", columns=100).out == screen("""
                    spill         static  dynamic
variant             st/ld  stack    smem     smem       blk  wrp   occ
  arch     regs         B      B       B        B  bar  /SM  /SM     %  lim

ring  128 or 512 threads
bf16.d64
  sm_86     102         0      0     512    32768    1    2    8  16.7  S
  sm_90a    102         0      0     512    32768    1    4   16  25.0  R
bf16.d256
  sm_90a    128  !136/116    112    2048   131072    4    1   16  25.0  R+S

! registers spilled to local memory: 1 of 3 kernels
sm_86 leaves out ring.bf16.d256: needs 131072 bytes of dynamic shared memory, a block has at most
101376
lim: W warps, R registers, S shared memory, B blocks, Bar barriers
static smem is the compiler's, dynamic smem flags.yaml's; occupancy counts both and 1024 B reserved
per block
sparkctl test of 2 variants: 2 not tested
nvcc 13.0.88, profile release
""")


def test_a_pipe_gets_one_whole_line_per_variant_and_arch(run: Run) -> None:
    assert run("merge", "warped", "--arch", "sm_80,sm_90a").out == screen("""
                                     spill  spill         static  dynamic
                       block        stores  loads  stack    smem     smem       blocks  warps    occ
variant      arch    threads  regs       B      B      B       B        B  bar     /SM    /SM      %  limiter     next step
merge.bf16   sm_80       128    32       0      0      0    2048        0    1      16     64  100.0  warps+regs  –
merge.bf16   sm_90a      128    32       0      0      0    2048        0    1      16     64  100.0  warps+regs  –
warped.bf16  sm_90a      128   168       0      0      0       0        0    1       3     12   18.8  regs        4: −40 regs

sm_80 leaves out warped.bf16: needs sm_90a
static smem is the compiler's, dynamic smem flags.yaml's; occupancy counts both and 1024 B reserved per block
sparkctl test of 2 variants: 2 not tested
nvcc 13.0.88, profile release
""")


def test_details_name_the_function_each_limit_and_the_next_step(run: Run) -> None:
    assert run("ring", "--dtype", "bf16", "--head-dim", "64", "-v", columns=120).out == screen("""
                          spill  spill         static  dynamic
            block        stores  loads  stack    smem     smem       blocks  warps   occ
variant   threads  regs       B      B      B       B        B  bar     /SM    /SM     %  limiter  next step

ring  sm_90
bf16.d64      128   102       0      0      0     512    32768    1       4     16  25.0  regs     5: −6 regs

static smem is the compiler's, dynamic smem flags.yaml's; occupancy counts both and 1024 B reserved per block
sparkctl test of 1 variant: 1 not tested
nvcc 13.0.88, profile release

ring.bf16.d64  sm_90
  function   ring_kernel
  mangled    _Z11ring_kerneli
  blocks/SM  4 of: warps 16, registers 4, shared memory 6, blocks 32, barriers 64
  warps/SM   16 of 64
  next step  5 blocks/SM (31.3 %) at 96 registers, 6 fewer
  log        build/cuda-sm_90-release/obj/ring.bf16.d64.ptxas
""")


def test_a_very_narrow_terminal_gets_sentences_and_no_cut_number(run: Run) -> None:
    assert run("ring", "--head-dim", "256", columns=50).out == screen("""
ring.bf16.d256 sm_90
128 regs, !spills 136/116 B, stack 112 B, 2048 +
131072 B static + dynamic smem, 4 bar, 1
blocks/SM, 16 warps/SM, 25.0 %, limited by
regs+smem
ring.fp16.d256 sm_90
255 regs, stack 0 B, 2048 + 131072 B static +
dynamic smem, 1 bar, 0 blocks/SM, 0 warps/SM, 0.0
%, limited by regs

! registers spilled to local memory: 1 of 2
kernels
! ring.fp16.d256 cannot launch on sm_90: too many
registers
static smem is the compiler's, dynamic smem
flags.yaml's; occupancy counts both and 1024 B
reserved per block
sparkctl test of 2 variants: 2 not tested
nvcc 13.0.88, profile release
""")


def test_markdown_is_a_table_for_a_pull_request(run: Run) -> None:
    assert run("ring", "--head-dim", "256", "--markdown").out == screen("""
| variant | arch | threads | registers | spill stores B | spill loads B | stack B | static smem B | dynamic smem B | barriers | blocks/SM | warps/SM | occupancy % | limiters | tests |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |
| ring.bf16.d256 | sm_90 | 512 | 128 | **136** | **116** | 112 | 2048 | 131072 | 4 | 1 | 16 | 25.0 | registers, shared memory | – |
| ring.fp16.d256 | sm_90 | 512 | 255 | 0 | 0 | 0 | 2048 | 131072 | 1 | 0 | 0 | 0.0 | registers | – |

nvcc 13.0.88, profile release
""")


def test_csv_has_plain_numbers(run: Run) -> None:
    assert run("ring", "--head-dim", "256", "--csv").out == screen("""
variant,arch,block_threads,registers,spill_store_bytes,spill_load_bytes,stack_bytes,static_smem_bytes,dynamic_smem_bytes,barriers,blocks_per_sm,warps_per_sm,occupancy_percent,limiters,next_blocks_per_sm,registers_fewer,smem_bytes_fewer,function,tests
ring.bf16.d256,sm_90,512,128,136,116,112,2048,131072,4,1,16,25.0,registers+shared_memory,2,64,17408,_Z11ring_kerneli,
ring.fp16.d256,sm_90,512,255,0,0,0,2048,131072,1,0,0,0.0,registers,1,127,0,_Z11ring_kerneli,
""")


def test_json_has_everything(run: Run) -> None:
    result = run("ring", "--where", "head_dim=64", "--dtype", "bf16", "--arch", "sm_89", "--json")
    data = json.loads(result.out)
    log = data["kernels"][0].pop("log")
    assert Path(log).name == "ring.bf16.d64.ptxas"
    assert data == {
        "schema_version": 1,
        "command": "regs",
        "compiler": "nvcc 13.0.88",
        "profile": "release",
        "sets": {},
        "archs": ["sm_89"],
        "kernels": [
            {
                "name": "ring.bf16.d64",
                "variant": "ring.bf16.d64",
                "kernel": "ring",
                "axes": {"dtype": "bf16", "head_dim": 64},
                "arch": "sm_89",
                "block_threads": 128,
                "function": "_Z11ring_kerneli",
                "demangled": "ring_kernel(int)",
                "short_name": "ring_kernel",
                "registers": 102,
                "register_cap": None,
                "spill_store_bytes": 0,
                "spill_load_bytes": 0,
                "stack_bytes": 0,
                "cumulative_stack_bytes": None,
                "static_smem_bytes": 512,
                "dynamic_smem_bytes": 32768,
                "barriers": 1,
                "constant_bytes": 0,
                "occupancy": {
                    "blocks_per_sm": 2,
                    "warps_per_sm": 8,
                    "percent": 16.67,
                    "limiters": ["shared_memory"],
                    "blocks_by_limit": {
                        "warps": 12,
                        "registers": 4,
                        "shared_memory": 2,
                        "blocks": 24,
                        "barriers": None,
                    },
                },
                "next_step": {
                    "blocks_per_sm": 3,
                    "percent": 25.0,
                    "registers": None,
                    "smem_bytes": 33024,
                    "registers_fewer": 0,
                    "smem_bytes_fewer": 256,
                    "text": "3 blocks/SM (25.0 %) at 33024 bytes of smem, 256 fewer",
                },
                "waves": None,
                "tests": None,
                "calls": [],
            }
        ],
        "left_out": [],
        "grid": None,
        "notes": [],
    }


def keep(root: Path, variant: str, *, code: str = "ring.cu", **changes: object) -> None:
    """A verdict of a test run, of the source as it is."""
    files = {code: hash_files([root / code])}
    verdict = Verdict(
        variant, "emulator", "the emulator", "sm_90", "release", {}, 40, 0, True, "0123456789ab", False,
        "2026-01-31T12:00:00+00:00", code_key(files),
    )  # fmt: skip
    remember(root / "build" / "test" / "verdicts.json", [replace(verdict, **changes)], {code_key(files): files})


def test_the_last_test_of_each_variant_stands_beside_its_registers(run: Run, tmp_path: Path) -> None:
    (tmp_path / "ring.cu").touch()
    (tmp_path / "other.cu").write_text("before\n")
    keep(tmp_path, "ring.bf16.d64")
    keep(tmp_path, "ring.fp16.d64", failed=3)
    keep(tmp_path, "ring.bf16.d256", whole=False)
    keep(tmp_path, "ring.fp16.d256", code="other.cu")
    (tmp_path / "other.cu").write_text("after\n")
    lines = run("ring", columns=160).out.splitlines()
    cells = {line.split()[0]: line.split()[-1] for line in lines if line.startswith("ring.")}
    assert cells == {
        "ring.bf16.d64": "pass", "ring.bf16.d256": "part", "ring.fp16.d64": "!3/40", "ring.fp16.d256": "old",
    }  # fmt: skip
    assert (
        "! ring.fp16.d64 fails its tests: 3 of 40 cases failed on the emulator, commit 0123456789ab, "
        "2026-01-31 12:00 UTC, of this very code"
    ) in lines
    assert "sparkctl test of 4 variants: 1 fail, 1 passed, 1 passed in part, 1 passed before a change" in lines
    narrow = run("ring", columns=80).out
    assert "! ring.fp16.d64 fails its tests: 3 of 40 cases failed" in narrow
    details = run("ring.bf16.d64", before=["-v"]).out
    assert "  tests      40 cases passed on the emulator, commit 0123456789ab, 2026-01-31 12:00" in details
    kernels = json.loads(run("ring", "--json").out)["kernels"]
    assert {k["variant"]: k["tests"] and (k["tests"]["failed"], k["tests"]["of_this_code"]) for k in kernels} == {
        "ring.bf16.d64": (0, True), "ring.bf16.d256": (0, True), "ring.fp16.d64": (3, True), "ring.fp16.d256": (0, False),
    }  # fmt: skip


def test_json_says_what_an_arch_cannot_run(run: Run) -> None:
    data = json.loads(run("ring", "warped", "--dtype", "bf16", "--arch", "sm_86,sm_90a", "--json").out)
    assert [(item["variant"], item["arch"], item["reason"]) for item in data["left_out"]] == [
        (
            "ring.bf16.d256",
            "sm_86",
            "needs 131072 bytes of dynamic shared memory, a block has at most 101376",
        ),
        ("warped.bf16", "sm_86", "needs sm_90a"),
    ]


def test_a_device_function_that_spills_is_said_beside_its_kernel(run: Run, tmp_path: Path) -> None:
    run("merge")
    log = tmp_path / "build" / "cuda-sm_90-release" / "obj" / "merge.bf16.ptxas"
    called = "ptxas info    : Function properties for _Z5chainPKfi\n"
    frame = "    24 bytes stack frame, 16 bytes spill stores, 20 bytes spill loads\n"
    log.write_text(log.read_text(encoding="utf-8") + called + frame, encoding="utf-8")
    result = run("merge")
    assert "! merge.bf16 (sm_90) calls chain, which spills 16/20 B" in result.out.splitlines()
    assert json.loads(run("merge", "--json").out)["kernels"][0]["calls"] == [
        {
            "function": "_Z5chainPKfi",
            "demangled": "chain(float const*, int)",
            "stack_bytes": 24,
            "spill_store_bytes": 16,
            "spill_load_bytes": 20,
        }
    ]


def test_a_kernel_that_cannot_launch_is_said(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NUMBERS, "ring.fp16.d256", (255, 0, 0, 0, 2048, 1))  # 512 threads of 255 registers
    lines = run("ring", "--dtype", "fp16", "--head-dim", "256").out.splitlines()
    assert "! ring.fp16.d256 cannot launch on sm_90: too many registers" in lines


def test_a_log_that_is_cut_is_an_error_that_names_the_file(run: Run, tmp_path: Path) -> None:
    run("merge")
    log = tmp_path / "build" / "cuda-sm_90-release" / "obj" / "merge.bf16.ptxas"
    log.write_text(log.read_text(encoding="utf-8")[:-40], encoding="utf-8")
    result = run("merge")
    assert result.code == 1
    assert result.out == ""
    assert "merge.bf16.ptxas: compiler log line 5: 'ptxas info" in result.err
    assert "hint: build it again" in result.err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("rinng",), 2, "'rinng'"),
        (("ring", "--head-dim", "128"), 2, "128"),
        (("ring", "--arch", "sm_75"), 2, "arch 'sm_75' is older than sm_80, the oldest supported"),
        (("warped", "--arch", "sm_90"), 2, "nothing selected runs on sm_90"),
        (("ring", "--json", "--csv"), 2, "--json, --csv and --markdown exclude each other"),
        (("ring", "--set", "nothing"), 2, "--set nothing: no value"),
    ],
)
def test_wrong_usage_exits_2_and_says_why(run: Run, words: tuple[str, ...], code: int, message: str) -> None:
    result = run(*words)
    assert (result.code, result.out) == (code, "")
    assert message in result.err
    assert "hint:" in result.err


def test_without_nvcc_it_exits_3_and_says_how_to_get_one(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    only_host = Toolchain(None, HostCompiler(Path("g++"), "g++ 12", "PATH", ""), None, None, None, (), tmp_path)
    monkeypatch.setattr("sparkctl.toolchain.find_toolchain", lambda **_: only_host)
    result = run("ring")
    assert result.code == 3
    assert result.out == ""
    assert result.err.startswith("error: no nvcc")
    assert "hint: pip install" in result.err


def test_all_archs_are_those_that_this_nvcc_knows(run: Run) -> None:
    assert json.loads(run("merge", "--arch", "all", "--json").out)["archs"] == ["sm_80", "sm_90"]


def test_colour_only_marks_what_the_text_already_says(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = run("ring", columns=80)
    plain = run("ring", "--no-color", columns=80)
    assert "\x1b[1;31m" in coloured.out
    assert "!136/116" in plain.out
    without = re.sub(r"\x1b\[[\d;]*m", "", coloured.out)
    assert [line.rstrip() for line in without.splitlines()] == [
        re.sub(r"\x1b\[[\d;]*m", "", line).rstrip() for line in plain.out.splitlines()
    ]
