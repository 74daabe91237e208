"""`sparkctl proof`: whole screens of made-up parts, gains and non-gains, and each refusal."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from proof_parts import CLEAN, FakeParts, Prove, prove_with

from sparkctl.arch import Arch
from sparkctl.bench.ab import Ab, Bits
from sparkctl.bench.axes import DecodeCase, Heads
from sparkctl.bench.faults import DeviceLost
from sparkctl.bench.results import Stamp
from sparkctl.errors import UsageError, WorkFailed
from sparkctl.registry import load_registry
from sparkctl.testing.precision import Precision
from sparkctl.workflows import proof as workflow
from sparkctl.workflows.proof_plan import ProofRequest, plan_proof

FAPIPE = ("--ab", "FAPIPE=0,1")
FIRST = "1 × 4k, 32/8, d128, bf16"


@pytest.fixture
def parts() -> FakeParts:
    return FakeParts()


@pytest.fixture
def prove(parts: FakeParts, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Prove:
    return prove_with(parts, monkeypatch, capsys)


NARROW = """\
NVIDIA H200, driver 580.95.05, CUDA 13.0, SM at 1980 MHz, commit 0123456789ab,
clean

fa_split_gqa: FAPIPE=1 against FAPIPE=0, bf16, d128, 32/8 heads, cold L2; case:
batch × kv_len
         FAPIPE=0  FAPIPE=1
case           µs        µs  ratio     interval  verdict  outputs
1 × 4k      11.63      9.69  1.200  1.199–1.201   faster  bits equal
8 × 4k      65.07     54.22  1.200  1.199–1.201   faster  bits equal
1 × 16k     34.51     28.76  1.200  1.199–1.201   faster  bits equal
8 × 16k     248.1     206.7  1.200  1.199–1.201   faster  bits equal
         FAPIPE=0  FAPIPE=1        FAPIPE=0        FAPIPE=1
case        tok/s     tok/s  128 tokens, ms  128 tokens, ms
1 × 4k       2686      3223           47.65           39.71
8 × 4k       3842      4611           266.5           222.1
1 × 16k       905      1087           141.4           117.8
8 × 16k      1008      1209            1016           846.8
geometric mean of 4 ratios: 1.200, from 1.200 to 1.200; 4 faster; all bits equal

tok/s: attention only, batch / (32 layers × time of one attention call); 128
tokens of every sequence are 32 × 128 calls. No projection, MLP or sampling is
in it.

tests, cuda, NVIDIA H200, quick cases
arm       tests
FAPIPE=0  239 of 239 cases passed
FAPIPE=1  239 of 239 cases passed

registers, sm_90, nvcc 13.0.88
        spill  static  dynamic
        st/ld    smem     smem  blocks  warps   occ
  regs      B       B        B     /SM    /SM     %  limiter
FAPIPE=0, fa_split_gqa.bf16.d128.s1
    72      0     640     7168       3     24  37.5     regs
FAPIPE=1, fa_split_gqa.bf16.d128
    80      0     640    14336       3     24  37.5     regs
fa_split_gqa.bf16.d128.s1 → fa_split_gqa.bf16.d128: worse, registers 72 → 80,
dynamic smem B 7168 → 14336

accuracy
   rel. L2   largest  of allowed  positions  top-1  KL mean   KL max
fa_split_gqa, FAPIPE=0
  1.64e-03  3.10e-03        0.41         96  0.990  1.9e-04  1.2e-03
fa_split_gqa, FAPIPE=1
  1.64e-03  3.10e-03        0.41         96  0.990  1.9e-04  1.2e-03
fa_split_gqa, pages, FAPIPE=0
  1.64e-03  3.10e-03        0.41         96  0.990  1.9e-04  1.2e-03
fa_split_gqa, pages, FAPIPE=1
  1.64e-03  3.10e-03        0.41         96  0.990  1.9e-04  1.2e-03
plain bf16 in torch
  2.18e-03  3.40e-03        0.60         96  0.990  1.9e-04  1.2e-03
fa_split_gqa, FAPIPE=1: bits equal, of 6144 outputs
fa_split_gqa, pages, FAPIPE=1: bits equal, of 6144 outputs
bars: of allowed ≤ 1, top-1 ≥ 0.90, KL mean ≤ 0.20 nats; all against fp64

device    NVIDIA H200, sm_90, 132 SMs, 60 MiB L2, peak 4.8 TB/s (datasheet), SM
          at 1980 MHz
software  driver 580.95.05, CUDA 13.0, torch 2.11.0+cu130, cuDNN 91900, nvcc
          13.0.88
samples   at least 20, until the median's 95 % interval is at most 0.5% wide, 3
          s or 2000 samples
revision  sparkctl 0.1.0, commit 0123456789ab, profile release
repeat    sparkctl proof --ab FAPIPE=0,1 --seq 4k,16k --batch 1,8 --heads 32/8
          --head-dim 128 --dtype bf16 --layers 32 --tokens 128 --budget 3
          --profile release

a gain: FAPIPE=1 against FAPIPE=0
"""

WIDE = """\
NVIDIA H200, driver 580.95.05, CUDA 13.0, SM at 1980 MHz, commit 0123456789ab, clean

fa_split_gqa: FAPIPE=1 against FAPIPE=0, bf16, d128, 32/8 heads, cold L2; case: batch × kv_len
         FAPIPE=0  FAPIPE=1                               FAPIPE=0  FAPIPE=1        FAPIPE=0        FAPIPE=1
case           µs        µs  ratio     interval  verdict     tok/s     tok/s  128 tokens, ms  128 tokens, ms  outputs
1 × 4k      11.63      9.69  1.200  1.199–1.201   faster      2686      3223           47.65           39.71  bits equal
8 × 4k      65.07     54.22  1.200  1.199–1.201   faster      3842      4611           266.5           222.1  bits equal
1 × 16k     34.51     28.76  1.200  1.199–1.201   faster       905      1087           141.4           117.8  bits equal
8 × 16k     248.1     206.7  1.200  1.199–1.201   faster      1008      1209            1016           846.8  bits equal
geometric mean of 4 ratios: 1.200, from 1.200 to 1.200; 4 faster; all bits equal

tok/s: attention only, batch / (32 layers × time of one attention call); 128 tokens of every sequence are 32 × 128
calls. No projection, MLP or sampling is in it.

tests, cuda, NVIDIA H200, quick cases
arm       tests
FAPIPE=0  239 of 239 cases passed
FAPIPE=1  239 of 239 cases passed

registers, sm_90, nvcc 13.0.88
                                           spill  static  dynamic
                                           st/ld    smem     smem  blocks  warps   occ
arm       variant                    regs      B       B        B     /SM    /SM     %  limiter
FAPIPE=0  fa_split_gqa.bf16.d128.s1    72      0     640     7168       3     24  37.5  regs
FAPIPE=1  fa_split_gqa.bf16.d128       80      0     640    14336       3     24  37.5  regs
fa_split_gqa.bf16.d128.s1 → fa_split_gqa.bf16.d128: worse, registers 72 → 80, dynamic smem B 7168 → 14336

accuracy
arm                             rel. L2   largest  of allowed  positions  top-1  KL mean   KL max
fa_split_gqa, FAPIPE=0         1.64e-03  3.10e-03        0.41         96  0.990  1.9e-04  1.2e-03
fa_split_gqa, FAPIPE=1         1.64e-03  3.10e-03        0.41         96  0.990  1.9e-04  1.2e-03
fa_split_gqa, pages, FAPIPE=0  1.64e-03  3.10e-03        0.41         96  0.990  1.9e-04  1.2e-03
fa_split_gqa, pages, FAPIPE=1  1.64e-03  3.10e-03        0.41         96  0.990  1.9e-04  1.2e-03
plain bf16 in torch            2.18e-03  3.40e-03        0.60         96  0.990  1.9e-04  1.2e-03
fa_split_gqa, FAPIPE=1: bits equal, of 6144 outputs
fa_split_gqa, pages, FAPIPE=1: bits equal, of 6144 outputs
bars: of allowed ≤ 1, top-1 ≥ 0.90, KL mean ≤ 0.20 nats; all against fp64

device    NVIDIA H200, sm_90, 132 SMs, 60 MiB L2, peak 4.8 TB/s (datasheet), SM at 1980 MHz
software  driver 580.95.05, CUDA 13.0, torch 2.11.0+cu130, cuDNN 91900, nvcc 13.0.88
samples   at least 20, until the median's 95 % interval is at most 0.5% wide, 3 s or 2000 samples
revision  sparkctl 0.1.0, commit 0123456789ab, profile release
repeat    sparkctl proof --ab FAPIPE=0,1 --seq 4k,16k --batch 1,8 --heads 32/8 --head-dim 128 --dtype bf16 --layers 32
          --tokens 128 --budget 3 --profile release

a gain: FAPIPE=1 against FAPIPE=0
"""

MARKDOWN = """\
NVIDIA H200, driver 580.95.05, CUDA 13.0, SM at 1980 MHz, commit 0123456789ab, clean

**fa_split_gqa: FAPIPE=1 against FAPIPE=0, bf16, d128, 32/8 heads, cold L2; case: batch × kv_len**

| case | FAPIPE=0 µs | FAPIPE=1 µs | ratio | interval | verdict | \
FAPIPE=0 tok/s | FAPIPE=1 tok/s | FAPIPE=0 128 tokens, ms | FAPIPE=1 128 tokens, ms | outputs |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |
| 1 × 4k | 11.63 | 9.69 | 1.200 | 1.199–1.201 | faster | 2686 | 3223 | 47.65 | 39.71 | bits equal |
| 8 × 4k | 65.07 | 54.22 | 1.200 | 1.199–1.201 | faster | 3842 | 4611 | 266.5 | 222.1 | bits equal |
| 1 × 16k | 34.51 | 28.76 | 1.200 | 1.199–1.201 | faster | 905 | 1087 | 141.4 | 117.8 | bits equal |
| 8 × 16k | 248.1 | 206.7 | 1.200 | 1.199–1.201 | faster | 1008 | 1209 | 1016 | 846.8 | bits equal |

geometric mean of 4 ratios: 1.200, from 1.200 to 1.200; 4 faster; all bits equal

**tests, cuda, NVIDIA H200, quick cases**

| arm | tests |
| --- | --- |
| FAPIPE=0 | 239 of 239 cases passed |
| FAPIPE=1 | 239 of 239 cases passed |

**registers, sm_90, nvcc 13.0.88**

| arm | variant | regs | spill st/ld B | static smem B | dynamic smem B | blocks /SM | warps /SM | occ % | limiter |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |
| FAPIPE=0 | fa_split_gqa.bf16.d128.s1 | 72 | 0 | 640 | 7168 | 3 | 24 | 37.5 | regs |
| FAPIPE=1 | fa_split_gqa.bf16.d128 | 80 | 0 | 640 | 14336 | 3 | 24 | 37.5 | regs |

- fa_split_gqa.bf16.d128.s1 → fa_split_gqa.bf16.d128: worse, registers 72 → 80, dynamic smem B 7168 → 14336

**accuracy**

| arm | rel. L2 | largest | of allowed | positions | top-1 | KL mean | KL max |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| fa_split_gqa, FAPIPE=0 | 1.64e-03 | 3.10e-03 | 0.41 | 96 | 0.990 | 1.9e-04 | 1.2e-03 |
| fa_split_gqa, FAPIPE=1 | 1.64e-03 | 3.10e-03 | 0.41 | 96 | 0.990 | 1.9e-04 | 1.2e-03 |
| fa_split_gqa, pages, FAPIPE=0 | 1.64e-03 | 3.10e-03 | 0.41 | 96 | 0.990 | 1.9e-04 | 1.2e-03 |
| fa_split_gqa, pages, FAPIPE=1 | 1.64e-03 | 3.10e-03 | 0.41 | 96 | 0.990 | 1.9e-04 | 1.2e-03 |
| plain bf16 in torch | 2.18e-03 | 3.40e-03 | 0.60 | 96 | 0.990 | 1.9e-04 | 1.2e-03 |

- fa_split_gqa, FAPIPE=1: bits equal, of 6144 outputs
- fa_split_gqa, pages, FAPIPE=1: bits equal, of 6144 outputs
- bars: of allowed ≤ 1, top-1 ≥ 0.90, KL mean ≤ 0.20 nats; all against fp64

- tok/s: attention only, batch / (32 layers × time of one attention call); \
128 tokens of every sequence are 32 × 128 calls. No projection, MLP or sampling is in it.
- device: NVIDIA H200, sm_90, 132 SMs, 60 MiB L2, peak 4.8 TB/s (datasheet), SM at 1980 MHz
- software: driver 580.95.05, CUDA 13.0, torch 2.11.0+cu130, cuDNN 91900, nvcc 13.0.88
- samples: at least 20, until the median's 95 % interval is at most 0.5% wide, 3 s or 2000 samples
- revision: sparkctl 0.1.0, commit 0123456789ab, profile release
- repeat: `sparkctl proof --ab FAPIPE=0,1 --seq 4k,16k --batch 1,8 --heads 32/8 \
--head-dim 128 --dtype bf16 --layers 32 --tokens 128 --budget 3 --profile release`

**a gain: FAPIPE=1 against FAPIPE=0**
"""

PROGRESS = """\
tests, part 1 of 4
accuracy, part 2 of 4
[1/4] fa_split_gqa, FAPIPE=0
[2/4] fa_split_gqa, FAPIPE=1
[3/4] fa_split_gqa, pages, FAPIPE=0
[4/4] fa_split_gqa, pages, FAPIPE=1
registers, part 3 of 4
benchmark, part 4 of 4
[1/4] 1 × 4k, 32/8, d128, bf16
[2/4] 8 × 4k, 32/8, d128, bf16
[3/4] 1 × 16k, 32/8, d128, bf16
[4/4] 8 × 16k, 32/8, d128, bf16
"""


@pytest.mark.parametrize(("columns", "screen"), [(80, NARROW), (120, WIDE)])
def test_a_gain_prints_every_part_and_exits_0(prove: Prove, parts: FakeParts, columns: int, screen: str) -> None:
    shown = prove(*FAPIPE, columns=columns)
    assert shown.out + "\n" == screen
    assert (shown.code, shown.err) == (0, PROGRESS)
    assert max(map(len, shown.out.splitlines())) <= columns
    assert parts.ran == ["tests", "accuracy", "registers", "benchmark"]


def test_markdown_in_a_pipe_is_the_table_for_a_pull_request(prove: Prove) -> None:
    shown = prove(*FAPIPE, "--markdown", columns=None)
    assert (shown.code, shown.out + "\n") == (0, MARKDOWN)


def test_colour_changes_no_text(prove: Prove, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = prove(*FAPIPE, columns=120, environ={"FORCE_COLOR": "1"}).out
    assert "\033[1;32ma gain: FAPIPE=1 against FAPIPE=0\033[0m" in coloured
    plain = prove("--no-color", *FAPIPE, columns=120, environ={"FORCE_COLOR": "1"}).out
    assert plain + "\n" == WIDE


def test_quiet_says_nothing_on_stderr(prove: Prove) -> None:
    assert prove(*FAPIPE, "-q").err == ""


@pytest.mark.parametrize(
    ("gain", "noise", "last"),
    [
        (1.0, 0.001, ["no gain: no case is faster: what differs is inside the noise"]),
        (1.004, 0.0001, ["no gain: no case is faster: what differs is inside the noise"]),
    ],
)
def test_the_same_time_prints_the_table_and_exits_1(
    prove: Prove, parts: FakeParts, gain: float, noise: float, last: list[str]
) -> None:
    parts.gain, parts.noise = lambda case: gain, noise
    shown = prove(*FAPIPE, columns=120)
    assert shown.code == 1
    assert "4 same" in shown.out
    assert shown.out.splitlines()[-1:] == last


def test_unsure_is_no_gain_though_others_are_faster(prove: Prove, parts: FakeParts) -> None:
    parts.noise = 0.04
    parts.gain = lambda case: 1.5 if case.batch == 8 else 1.01
    shown = prove(*FAPIPE, "--seq", "16k", columns=120)
    assert shown.code == 1
    assert "1 faster, 1 unsure" in shown.out
    (reason,) = [line for line in shown.out.splitlines() if line.startswith("no gain: ")]
    assert reason.startswith("no gain: fa_split_gqa on 1 × 16k, 32/8, d128, bf16: unsure, the interval 0.")


def test_a_guard_case_two_percent_slower_spoils_a_gain(prove: Prove, parts: FakeParts) -> None:
    parts.gain = lambda case: 1.3 if case.kv_len == 16384 else 0.975
    shown = prove(*FAPIPE, columns=120)
    assert shown.code == 1
    assert [line for line in shown.out.splitlines() if line.startswith("no gain")] == [
        "no gain: fa_split_gqa on 1 × 4k, 32/8, d128, bf16: 2.6% slower; less than 2% is let pass",
        "no gain: fa_split_gqa on 8 × 4k, 32/8, d128, bf16: 2.6% slower; less than 2% is let pass",
    ]


def test_a_guard_case_one_percent_slower_does_not(prove: Prove, parts: FakeParts) -> None:
    parts.gain = lambda case: 1.3 if case.kv_len == 16384 else 0.99
    shown = prove(*FAPIPE)
    assert shown.code == 0
    assert "2 faster, 2 slower" in shown.out


def test_a_gain_that_the_other_cases_eat_up_is_none(prove: Prove, parts: FakeParts) -> None:
    parts.gain = lambda case: 1.01 if (case.batch, case.kv_len) == (1, 4096) else 0.985
    shown = prove(*FAPIPE, columns=120)
    assert shown.code == 1
    assert shown.out.splitlines()[-1] == "no gain: the geometric mean of the ratios is not above 1"


def test_bits_that_differ_are_told(prove: Prove, parts: FakeParts) -> None:
    parts.bits = Bits(31, 4096, 0.5)
    shown = prove(*FAPIPE, columns=80)
    assert shown.code == 0
    assert "31 differ" in shown.out
    assert "bits differ in 4 of 4 cases, by up to 0.5" in " ".join(shown.out.split())


def test_an_axis_is_proved_for_the_kernel_that_the_operator_takes(prove: Prove, parts: FakeParts) -> None:
    shown = prove("--ab", "stages=1,2", columns=120)
    assert shown.code == 0
    assert shown.out.splitlines()[2].startswith("attn_decode_split_kv_mma: stages=2 against stages=1, bf16, d128, ")
    assert "stages=1  attn_decode_split_kv_mma.bf16.d128.s1" in shown.out
    assert "fa_split_gqa" not in shown.out


@pytest.mark.parametrize(
    ("stamps", "message"),
    [
        (
            [Stamp("0123456789ab", True)],
            "error: no proof: tree: sources differ from commit 0123456789ab\nhint: git commit, or git stash\n",
        ),
        (
            [Stamp("0123456789ab", None)],
            "error: no proof: tree: whether sources differ from commit 0123456789ab is not known\nhint: git status\n",
        ),
        (
            [Stamp(None, None)],
            "error: no proof: tree: no commit is known: no git history and no .sparkctl-stamp.json\n"
            "hint: git commit, or a stamp file from where the history is (docs/proof.md)\n",
        ),
    ],
)
def test_a_tree_that_differs_from_its_commit_is_refused_before_anything_runs(
    prove: Prove, parts: FakeParts, stamps: list[Stamp], message: str
) -> None:
    parts.stamps = stamps
    shown = prove(*FAPIPE)
    assert (shown.code, shown.out, shown.err) == (2, "", message)
    assert parts.ran == []


def test_an_edit_meanwhile_is_refused(prove: Prove, parts: FakeParts) -> None:
    parts.stamps = [CLEAN, Stamp("0123456789ab", True)]
    shown = prove(*FAPIPE, "-q")
    assert (shown.code, shown.out) == (1, "")
    assert shown.err == (
        "error: no proof while a part is missing or fails\n"
        "       tree: it changed while the proof was made\n"
        "hint: tree: the same command again, without edits meanwhile\n"
    )


def test_without_a_device_it_says_so_before_anything_is_built(
    prove: Prove, parts: FakeParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts.devices, parts.stamps = (), [Stamp("0123456789ab", True)]
    shown = prove(*FAPIPE)
    assert (shown.code, shown.out) == (3, "")
    assert shown.err == (
        "error: proof times on a CUDA device and this machine shows none\n"
        "hint: sparkctl test, sparkctl accuracy and sparkctl regs --vs do the other parts without one\n"
    )
    assert parts.ran == []


def test_every_part_that_fails_is_named_with_its_repair_and_nothing_is_timed(prove: Prove, parts: FakeParts) -> None:
    parts.failing = {"fa_split_gqa.bf16.d128": 2}
    parts.precision = {"fa_split_gqa, FAPIPE=1": Precision(0.3, 2.5, 318.2)}
    parts.without_registers = {"fa_split_gqa.bf16.d128.s1"}
    shown = prove(*FAPIPE, "-q")
    assert (shown.code, shown.out) == (1, "")
    assert shown.err == (
        "error: no proof while a part is missing or fails\n"
        "       tests: FAPIPE=1: 2 of 239 cases failed\n"
        "       accuracy: fa_split_gqa, FAPIPE=1: an output is off by 318.20 times what is allowed\n"
        "       registers: fa_split_gqa.bf16.d128.s1 has none on sm_90\n"
        "hint: tests: sparkctl test fa_split_gqa.bf16.d128.s1 fa_split_gqa.bf16.d128 --backend cuda --arch sm_90\n"
        "      accuracy: sparkctl accuracy fa_split_gqa --ab FAPIPE=0,1 --head-dim 128 --dtype bf16 "
        "--profile release\n"
        "      registers: sparkctl regs fa_split_gqa.bf16.d128.s1 --arch sm_90 --profile release\n"
    )
    assert parts.ran == ["tests", "accuracy", "registers"]


def test_an_arm_without_a_test_is_missing(prove: Prove, parts: FakeParts) -> None:
    parts.no_case_of = {"fa_split_gqa.bf16.d128.s1"}
    shown = prove(*FAPIPE, "-q")
    assert shown.code == 1
    assert "tests: FAPIPE=0: no case ran\n" in shown.err


def test_a_case_that_was_not_measured_and_facts_that_are_unknown_are_no_proof(prove: Prove, parts: FakeParts) -> None:
    parts.drop_case = lambda case: case.label == FIRST
    parts.facts = replace(parts.facts, driver=None, clocks_missing="no NVML")
    parts.clock = None
    shown = prove(*FAPIPE, "-q")
    assert (shown.code, shown.out) == (1, "")
    assert f"benchmark: fa_split_gqa on {FIRST} was not measured\n" in shown.err
    assert "benchmark: unknown: driver, clocks (no NVML)\n" in shown.err
    assert "hint: benchmark: sparkctl bench fa_split_gqa --ab FAPIPE=0,1\n" in shown.err


def test_a_case_that_fails_and_a_lost_device_are_no_proof(prove: Prove, parts: FakeParts) -> None:
    last = "8 × 16k, 32/8, d128, bf16"
    parts.broken = {FIRST: WorkFailed("FAPIPE=1: the output is wrong"), last: DeviceLost("unspecified launch failure")}
    shown = prove(*FAPIPE, "-q")
    assert (shown.code, shown.out) == (1, "")
    assert shown.err == (
        "error: no proof while a part is missing or fails\n"
        f"       benchmark: {FIRST}: FAPIPE=1: the output is wrong\n"
        "       benchmark: the device was lost: unspecified launch failure\n"
        f"       benchmark: fa_split_gqa on {last} was not measured\n"
        "hint: benchmark: sparkctl bench fa_split_gqa --ab FAPIPE=0,1\n"
    )


def test_a_time_that_cannot_be_is_no_proof(prove: Prove, parts: FakeParts) -> None:
    parts.gain = lambda case: 4.0
    shown = prove(*FAPIPE, "-q")
    assert (shown.code, shown.out) == (1, "")
    assert "more than 103% is a fault of the measurement" in shown.err


def test_an_error_inside_a_part_names_it(prove: Prove, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **rest: object) -> None:
        raise workflow.WorkFailed("ptxas gave up")

    monkeypatch.setattr(workflow, "report_regs", fail)
    shown = prove(*FAPIPE, "-q")
    assert (shown.code, shown.err) == (
        1,
        "error: no proof: registers: ptxas gave up\n"
        "hint: sparkctl regs fa_split_gqa.bf16.d128.s1 fa_split_gqa.bf16.d128\n",
    )


@pytest.mark.parametrize(
    ("where", "line"),
    [
        ("tests", "finished: nothing; stopped in tests; nothing is saved\n"),
        ("registers", "finished: tests, accuracy; stopped in registers; nothing is saved\n"),
        (
            "8 × 4k, 32/8, d128, bf16",
            "finished: tests, accuracy, registers; stopped in benchmark at 2 of 4, 8 × 4k, 32/8, d128, bf16; "
            "nothing is saved\n",
        ),
    ],
)
def test_an_interrupt_says_what_was_finished(prove: Prove, parts: FakeParts, where: str, line: str) -> None:
    parts.interrupt_in = where
    shown = prove(*FAPIPE, "-q")
    assert (shown.code, shown.out, shown.err) == (130, "", line + "error: interrupted\n")


def test_json_has_every_part_and_the_rate_says_what_it_is(prove: Prove) -> None:
    shown = prove(*FAPIPE, "--layers", "2", "--tokens", "10", "--seq", "4k", "--json")
    data = json.loads(shown.out)
    assert (shown.code, data["schema_version"], data["kind"], data["gain"]) == (0, 1, "proof", True)
    assert data["rate"] == {
        "what": "attention only: batch / (layers × time of one attention call)",
        "layers": 2,
        "tokens": 10,
    }
    one, eight = data["cases"]
    assert eight["after_tokens_per_s"] == pytest.approx(8 / (2 * eight["after_us"] * 1e-6))
    assert one["before_decode_ms"] == pytest.approx(2 * 10 * one["before_us"] / 1000)
    assert [arm["label"] for arm in data["tests"]["arms"]] == ["FAPIPE=0", "FAPIPE=1"]
    assert [row["registers"] for row in data["registers"]] == [72, 80]
    assert data["register_changes"][0]["verdict"] == "worse"
    assert data["accuracy"]["passed"]
    assert len(data["run"]["rows"]) == 4


def test_saving_keeps_what_json_prints_also_of_a_non_gain(prove: Prove, parts: FakeParts, tmp_path: Path) -> None:
    parts.gain = lambda case: 1.0
    target = tmp_path / "kept.json"
    shown = prove(*FAPIPE, "--seq", "4k", "--json", "--save", str(target), "-q")
    assert (shown.code, shown.err) == (1, f"saved to {target}\n")
    kept, printed = json.loads(target.read_text()), json.loads(shown.out)
    assert {**kept, "run": None} == {**printed, "run": None}
    assert printed["reasons"] == ["no case is faster: what differs is inside the noise"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "error: nothing to hold against each other\nhint: before and after: --ab FAPIPE=0,1, or --vs HEAD~1\n"),
        (["--ab", "stages=1,2,4"], "error: --ab stages=1,2,4: a proof holds two values\n"),
        (["--ab", "FAPIPE=0"], "error: --ab FAPIPE=0: one value has nothing to be held against\n"),
        ([*FAPIPE, "attn_combine"], "error: bench has no cases for attn_combine\n"),
        ([*FAPIPE, "attn_decode_split_kv"], "error: --ab FAPIPE: it does not reach attn_decode_split_kv\n"),
        ([*FAPIPE, "--json", "--markdown"], "error: --json and --markdown exclude each other\n"),
        ([*FAPIPE, "--seq", "0"], "error: '0' is less than 1\n"),
        ([*FAPIPE, "--head-dim", "64,128"], "error: --head-dim 64,128: one number is taken here\n"),
        ([*FAPIPE, "--where", "paged=1"], "error: --where paged=…: the cases decide it\n"),
        ([*FAPIPE, "--layers", "0"], "error: "),
        ([*FAPIPE, "--save", "a/b"], "error: --save a/b: not a name\n"),
    ],
)
def test_wrong_usage_says_what_and_what_next(prove: Prove, parts: FakeParts, words: list[str], message: str) -> None:
    shown = prove(*words)
    assert shown.code == 2
    assert shown.err.startswith(message)
    assert parts.ran == []


def test_a_flag_that_is_compiled_in_is_not_two_arms_of_one_build() -> None:
    """Both arms would be the same build, tested once."""
    request = ProofRequest(Ab("min_blocks", ("1", "2")), (DecodeCase(1, 4096, Heads(32, 8), 128),))
    with pytest.raises(UsageError, match="--ab min_blocks: a flag of kind define is compiled in"):
        plan_proof(load_registry(Path(__file__).resolve().parents[2]), request, Arch(9, 0))
