"""`sparkctl sass` and `sparkctl ptx`: whole screens over saved code; tests/nvcc/test_code.py compiles and disassembles."""

# ruff: noqa: E501 - screens are as wide as they are

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparkctl.arch import Arch
from sparkctl.build import Edge
from sparkctl.cli.app import main
from sparkctl.registry import load_registry
from sparkctl.toolchain import Nvcc, Toolchain
from sparkctl.workflows.revision import Revision

DATA = Path(__file__).parents[1] / "data" / "sass"
REGISTRY = """\
version: 1
profiles:
  release: {doc: What ships., nvcc: [-O3], ptxas: [-v]}
  lineinfo: {doc: With lines., extends: release, nvcc: [-lineinfo]}
flags: {}
kernels:
  ring:
    family: demo
    doc: A ring of tiles.
    source: ring.cu
    min_arch: sm_80
    axes:
      dtype: {values: [bf16, fp16]}
      head_dim: {values: [64], short: d}
    block: 32
    dynamic_smem: 0
    accepts: {group: 1..8}
  merge:
    family: demo
    doc: Merges.
    source: merge.cu
    min_arch: sm_80
    axes:
      dtype: {values: [bf16]}
    block: 32
    dynamic_smem: 0
    accepts: {group: 1..8}
  warped:
    family: demo
    doc: Needs one chip.
    source: warped.cu
    min_arch: sm_90a
    axes:
      dtype: {values: [bf16]}
    block: 32
    dynamic_smem: 0
    accepts: {group: 1..8}
"""
SPILL = ("0 bytes spill stores, 0 bytes spill loads", "4 bytes spill stores, 8 bytes spill loads")
# The "object" is a listing, which the tools below hand on.
CUOBJDUMP = """#!/bin/sh
[ "$1 $2" = "-xelf all" ] || exit 9
grep -q 'target.sm_90' "$3" || { echo "cuobjdump info    : File '$3' does not contain device code"; exit 0; }
cp "$3" kernel.sm_90.cubin
"""
NVDISASM = """#!/bin/sh
[ "$1 $2" = "-c -gi" ] || exit 9
exec cat "$3"
"""
NVCC = """#!/bin/sh
[ "$1 $2 $3 $4" = "-x cu -ptx ring.cu" ] || exit 9
while [ "$1" != -o ]; do shift; done
exec cp PTX "$2"
"""


@dataclass
class Screen:
    code: int
    out: str
    err: str


@dataclass
class Project:
    """A folder whose objects are written, not compiled."""

    root: Path
    call: Callable[..., Screen]
    tools: Toolchain

    def object(self, name: str, profile: str = "release") -> Path:
        return self.root / "build" / f"cuda-sm_90-{profile}" / "obj" / f"{name}.o"

    def write_object(self, name: str, text: str, log: str, profile: str = "release") -> None:
        path = self.object(name, profile)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.with_suffix(".ptxas").write_text(log, encoding="utf-8")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Project:
    (tmp_path / "flags.yaml").write_text(REGISTRY, encoding="utf-8")
    for kernel in ("merge", "warped"):
        (tmp_path / f"{kernel}.cu").touch()
    (tmp_path / "ring.cu").write_text((DATA / "ring.cu").read_text(encoding="utf-8"), encoding="utf-8")
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, script in (
        ("cuobjdump", CUOBJDUMP),
        ("nvdisasm", NVDISASM),
        ("nvcc", NVCC.replace("PTX", str(DATA / "ring.ptx"))),
    ):
        (tools / name).write_text(script, encoding="utf-8")
        (tools / name).chmod(stat.S_IRWXU)
    nvcc = Nvcc(tools / "nvcc", tmp_path, "13.0.88", "PATH", "", (), (), ("sm_80", "sm_90"), True, "")
    toolchain = Toolchain(nvcc, None, None, None, tools / "cuobjdump", (), tmp_path, tools / "nvdisasm")
    monkeypatch.setattr("sparkctl.build.archs.default_archs", lambda: (Arch(9, 0),))
    monkeypatch.setattr("sparkctl.workflows.code.run_build", lambda plans, progress: None)
    monkeypatch.setattr("sparkctl.workflows.code.raise_failures", lambda result: None)
    monkeypatch.setattr("sparkctl.workflows.code.inputs_of", lambda folder: {"ring.bf16.d64": {"ring.cu": "1"}})
    monkeypatch.chdir(tmp_path)

    def call(*words: str, columns: int | None = None) -> Screen:
        monkeypatch.setenv("COLUMNS", str(columns)) if columns else monkeypatch.delenv("COLUMNS", raising=False)
        capsys.readouterr()
        code = main(list(words))
        captured = capsys.readouterr()
        return Screen(code, "\n".join(line.rstrip() for line in captured.out.splitlines()), captured.err)

    made = Project(tmp_path, call, toolchain)
    monkeypatch.setattr("sparkctl.toolchain.find_toolchain", lambda **_: made.tools)
    monkeypatch.setattr("sparkctl.workflows.code.plan_build", written_plan(made))
    sass = (DATA / "ring.sass").read_text(encoding="utf-8").replace("/project/csrc", str(tmp_path))
    log = (DATA / "ring.log").read_text(encoding="utf-8")
    plain = "\n".join(line for line in sass.splitlines() if "## File" not in line)
    made.write_object("ring.bf16.d64", plain, log)
    made.write_object("ring.bf16.d64", sass, log, "lineinfo")
    made.write_object("ring.fp16.d64", plain.replace("STS [", "STL ["), log.replace(*SPILL))
    made.write_object("merge.bf16", plain.replace("FFMA.FTZ", "HMMA.16816.F32"), log)
    made.write_object("warped.bf16", "no code\n", log)
    return made


def written_plan(project: Project) -> Callable[..., Any]:
    def plan(registry: Any, variants: Any, *, arch: Any, profile: str, **_: Any) -> Any:
        folder = registry.root / "build" / f"cuda-{arch}-{profile}"
        edges = [
            Edge(
                v.name,
                v,
                v.kernel.source,
                f"build/cuda-{arch}-{profile}/obj/{v.name}.o",
                f"build/cuda-{arch}-{profile}/obj/{v.name}.ptxas",
                ("tools/nvcc", "-x", "cu", "-c", v.kernel.source, "-o", "x.o", "-O3", "-MD", "-MF", "x.d"),
            )
            for v in variants
        ]
        return SimpleNamespace(
            arch=arch,
            folder=folder,
            root=registry.root,
            edges=edges,
            toolchain=project.tools,
            label=folder.name,
            environ=None,
            compiler_identity="",
        )

    return plan


def screen(text: str) -> str:
    return text.strip("\n")


def test_one_variant_shows_its_mix_registers_and_loops(project: Project) -> None:
    result = project.call("sass", "ring.bf16.d64", columns=80)
    assert result.code == 0
    assert result.out == screen("""
ring.bf16.d64  sm_90
scale_rows
18 registers, no spills; 33 instructions, 11 of them in 1 loop

kind           all  loops  of these
global load      1      1  LDG.32 1
global store     1      0  STG.32 1
shared load      1      1  LDS.32 1
shared store     1      1  STS.32 1
constant load    6      0  LDC.64 2, ULDC.32 2, LDC.32 1, ULDC.64 1
FP32             1      1  FFMA 1
MUFU             1      0  MUFU.EX2 1
barrier          2      2  BAR.SYNC 2
integer         10      4  IMAD 2, ISETP 2, LEA 2, VIADD 2, IADD3 1, ULEA 1
branch           3      1  BRA 2, EXIT 1
move             6      0  S2R 2, CS2R 1, IMAD.MOV 1, S2UR 1, UMOV 1
total           33     11

loops: instructions in natural loops, found by the branches back; each counts
once
nvcc 13.0.88, profile release
""")


def test_names_and_numbers_stay_together_where_a_line_is_too_long(project: Project) -> None:
    assert (
        """
integer         10      4  IMAD 2, ISETP 2, LEA 2,
                           VIADD 2, IADD3 1, ULEA 1
"""
        in project.call("sass", "ring.bf16.d64", columns=54).out
    )


def test_local_memory_is_marked(project: Project) -> None:
    out = project.call("sass", "ring.fp16.d64", columns=80).out
    assert "18 registers, !spills 4/8 B; 33 instructions" in out
    assert "\n! local store    1      1  STL.32 1\n" in out
    assert "\n! local memory is used: 1 of 1 kernel; spills, or arrays that a thread indexes\n" in out


MANY_NOTES = """
! local memory is used: 1 of 3 kernels; spills, or arrays that a thread indexes
loops: instructions in natural loops, found by the branches back; each counts once
nvcc 13.0.88, profile release
"""


def test_several_variants_are_a_row_each_in_120_columns(project: Project) -> None:
    assert project.call("sass", "ring", "merge", columns=120).out == screen(
        """
ring  sm_90
variant   regs  LDG  LDGSTS  STG  LDS  STS  local  MMA  FP32  MUFU  sync  int  branch  move  other  total  loops
bf16.d64    18    1       0    1    1    1      0    0     1     1     2   10       3     6      6     33     11
fp16.d64    18    1       0    1    1    0     !1    0     1     1     2   10       3     6      6     33     11

merge  sm_90
variant   regs  LDG  LDGSTS  STG  LDS  STS  local  MMA  FP32  MUFU  sync  int  branch  move  other  total  loops
bf16        18    1       0    1    1    1      0    1     0     1     2   10       3     6      6     33     11
"""
        + MANY_NOTES
    )


def test_several_variants_share_columns_in_80(project: Project) -> None:
    assert project.call("sass", "ring", "merge", columns=80).out.startswith(
        screen("""
ring  sm_90
variant   regs  gmem  smem  local  MMA  FP32  MUFU  int  other  total  loops
bf16.d64    18     2     2      0    0     1     1   10     17     33     11
fp16.d64    18     2     1     !1    0     1     1   10     17     33     11

merge  sm_90
variant   regs  gmem  smem  local  MMA  FP32  MUFU  int  other  total  loops
bf16        18     2     2      0    1     0     1   10     17     33     11
""")
    )


def test_a_narrow_terminal_gets_sentences(project: Project) -> None:
    assert project.call("sass", "merge", "ring", "--dtype", "bf16", columns=50).out.startswith(
        screen("""
ring  sm_90
bf16.d64
  regs 18, gmem 2, smem 2, local 0, MMA 0, FP32 1,
  MUFU 1, int 10, other 17, total 33, loops 11
""")
    )


def test_a_pipe_gets_whole_names_and_one_line_a_variant(project: Project) -> None:
    assert project.call("sass", "ring").out.startswith(
        screen("""
variant              regs  LDG  LDGSTS  STG  LDS  STS  local  MMA  FP32  MUFU  sync  int  branch  move  other  total  loops
ring.bf16.d64 sm_90    18    1       0    1    1    1      0    0     1     1     2   10       3     6      6     33     11
ring.fp16.d64 sm_90    18    1       0    1    1    0     !1    0     1     1     2   10       3     6      6     33     11
""")
    )


def test_the_listing_has_addresses_loops_and_source_lines(project: Project) -> None:
    result = project.call("sass", "ring.bf16.d64", "--listing", "--profile", "lineinfo")
    lines = result.out.splitlines()
    assert lines[0] == "// ring.bf16.d64  sm_90  18 registers, no spills; 33 instructions, 11 of them in 1 loop"
    assert "\n".join(lines[lines.index(".L_x_1:") :]) == screen("""
.L_x_1:
  // ring.cu:6  tile[threadIdx.x] = in[row * stride + threadIdx.x];
  0120  |      IMAD.WIDE.U32 R2, R9, 0x4, R4
  0130  |      LDG.E R3, desc[UR6][R2.64]
  // ring.cu:5  for (int row = 0; row < rows; ++row) {
  0140  |      VIADD R11, R11, 0x1
  0150  |      VIADD R9, R9, UR4
  0160  |      ISETP.GE.AND P0, PT, R11, UR8, PT
  // ring.cu:6  tile[threadIdx.x] = in[row * stride + threadIdx.x];
  0170  |      STS [R0], R3
  // ring.cu:7  __syncthreads();
  0180  |      BAR.SYNC.DEFER_BLOCKING 0x0
  // ring.cu:8  total = fmaf(tile[31 - threadIdx.x], 0.5f, total);
  0190  |      LDS R13, [R8]
  01a0  |      FFMA.FTZ R10, R13, 0.5, R10
  // ring.cu:9  __syncthreads();
  01b0  |      BAR.SYNC.DEFER_BLOCKING 0x0
  // ring.cu:5  for (int row = 0; row < rows; ++row) {
  01c0  | @!P0 BRA .L_x_1
.L_x_0:
  // ring.cu:11  out[threadIdx.x] = exp2f(total);
  01d0         MUFU.EX2 R5, R10
  01e0         IMAD.WIDE.U32 R2, R15, 0x4, R6
  01f0         STG.E desc[UR6][R2.64], R5
.L_x_3:
  // ring.cu:12  }
  0200         EXIT
""")


def test_a_listing_without_lines_is_instructions_and_labels(project: Project) -> None:
    lines = project.call("sass", "ring.bf16.d64", "--listing").out.splitlines()
    assert len([line for line in lines if line.startswith("  0")]) == 33
    assert not [line for line in lines[1:] if "//" in line]


def test_by_line_counts_the_instructions_of_each_source_line(project: Project) -> None:
    assert project.call("sass", "ring.bf16.d64", "--by-line", "--profile", "lineinfo", columns=80).out == screen("""
ring.bf16.d64  sm_90
18 registers, no spills; 33 instructions, 11 of them in 1 loop

ring.cu
line   all  loops  source                         of these
   1     1      0  extern "C" __global__ void     constant load 1
                   __launch_bounds__(32)
                   scale_rows(float* out, const
                   float* in, int rows, int
                   stride) {
   5    11      4  for (int row = 0; row < rows;  integer 4, constant load 3,
                   ++row) {                       branch 2, move 2
   6    12      3  tile[threadIdx.x] = in[row *   integer 5, move 4, global load
                   stride + threadIdx.x];         1, shared store 1, constant
                                                  load 1
   7     1      1  __syncthreads();               barrier 1
   8     2      2  total = fmaf(tile[31 -         shared load 1, FP32 1
                   threadIdx.x], 0.5f, total);
   9     1      1  __syncthreads();               barrier 1
  11     4      0  out[threadIdx.x] =             global store 1, constant load
                   exp2f(total);                  1, MUFU 1, integer 1
  12     1      0  }                              branch 1

loops: instructions in natural loops, found by the branches back; each counts
once
nvcc 13.0.88, profile lineinfo
""")


def test_ptx_is_written_by_the_variants_command_and_kept(project: Project) -> None:
    result = project.call("ptx", "ring.bf16.d64", columns=80)
    assert result.code == 0
    assert "18 registers, no spills; 40 instructions, 13 of them in 1 loop\n" in result.out
    assert "\nbarrier          2      2  bar.sync 2\n" in result.out
    assert "registers are of the object that ptxas made of it\n" in result.out
    (project.root / "tools" / "nvcc").unlink()
    assert project.call("ptx", "ring.bf16.d64", columns=80) == result


def test_another_object_is_disassembled_again(project: Project) -> None:
    first = project.call("sass", "ring.bf16.d64").out
    text = project.object("ring.bf16.d64").read_text(encoding="utf-8")
    project.object("ring.bf16.d64").write_text(text.replace("MUFU.EX2", "MUFU.LG2"), encoding="utf-8")
    assert "MUFU.EX2" in first
    assert "MUFU.LG2 1" in project.call("sass", "ring.bf16.d64").out


def test_a_kept_listing_that_was_cut_is_made_again(project: Project) -> None:
    first = project.call("sass", "ring.bf16.d64")
    (kept,) = (project.root / "build").rglob("ring.bf16.d64.sass")
    kept.write_text(kept.read_text(encoding="utf-8")[:1500], encoding="utf-8")
    assert project.call("sass", "ring.bf16.d64") == first


def test_json_has_the_mix_the_lines_and_the_listing(project: Project) -> None:
    words = ("sass", "ring.bf16.d64", "--json", "--profile", "lineinfo")
    (kernel,) = json.loads(project.call(*words, "--listing").out)["kernels"]
    assert (kernel["variant"], kernel["registers"], kernel["instructions"], kernel["instructions_in_loops"]) == (
        "ring.bf16.d64", 18, 33, 11,
    )  # fmt: skip
    assert {"group": "global load", "name": "LDG.32", "count": 1, "in_loops": 1} in kernel["mix"]
    assert kernel["loops"] == [{"first": 18, "address": 0x120, "instructions": 11, "depth": 1}]
    assert kernel["listing"][19] == {
        "address": 0x130,
        "guard": None,
        "opcode": "LDG.E",
        "operands": "R3, desc[UR6][R2.64]",
        "places": [{"file": "ring.cu", "line": 6}],
    }
    assert len(kernel["listing"]) == 33
    (kernel,) = json.loads(project.call(*words, "--by-line").out)["kernels"]
    assert sum(line["instructions"] for line in kernel["lines"]) == 33
    assert "listing" not in kernel


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("ring", "--listing"), 2, "error: --listing shows one variant, 2 are selected\nhint: choose one: ring.bf16.d64, ring.fp16.d64\n"),
        (("merge", "--listing", "--arch", "sm_80,sm_90"), 2, "error: --listing shows one variant, 2 are selected\nhint: choose one by --arch: sm_80, sm_90\n"),
        (("merge", "--listing", "--by-line"), 2, "error: --listing and --by-line exclude each other\nhint: choose one\n"),
        (("merge", "--by-line"), 2, "error: profile release: its code has no source lines\nhint: a profile with -lineinfo among its nvcc options has them: --profile lineinfo\n"),
        (("ring.bf16.d65",), 2, "error: unknown variant 'ring.bf16.d65'\nhint: did you mean 'ring.bf16.d64'?\n"),
        (("warped.bf16",), 2, "error: warped.bf16 does not run on sm_90\nhint: min_arch: warped sm_90a\n"),
    ],
)  # fmt: skip
def test_wrong_calls(project: Project, words: tuple[str, ...], code: int, error: str) -> None:
    result = project.call("sass", *words)
    assert (result.code, result.err, result.out) == (code, error, "")


def test_an_arch_that_cannot_run_a_variant_is_named_below(project: Project) -> None:
    assert "\nsm_90 leaves out warped.bf16: needs sm_90a\n" in project.call("sass").out


def test_an_object_without_sass_is_said(project: Project) -> None:
    project.write_object("merge.bf16", "an object with PTX alone\n", "")
    result = project.call("sass", "merge")
    path = project.object("merge.bf16")
    assert (result.code, result.out) == (1, "")
    assert result.err == (
        f"error: {path}: no SASS for sm_90 in it: cuobjdump info    : File '{path}' does not contain device code\n"
        "hint: an option that replaces -gencode leaves PTX alone\n"
    )


def test_a_listing_cut_short_is_an_error_and_not_a_smaller_count(project: Project) -> None:
    text = project.object("merge.bf16").read_text(encoding="utf-8")
    project.write_object("merge.bf16", text[: text.index(".L_x_0:")], "")
    result = project.call("sass", "merge")
    assert (result.code, result.out) == (1, "")
    assert result.err == (
        f"error: {project.object('merge.bf16')}: the listing of scale_rows ends early\n"
        "hint: sparkctl build makes the object again\n"
    )


@pytest.mark.parametrize(
    ("gone", "named"), [(("nvdisasm",), "no nvdisasm"), (("cuobjdump", "nvdisasm"), "no cuobjdump and no nvdisasm")]
)
def test_without_a_disassembler_nothing_is_built(
    project: Project, monkeypatch: pytest.MonkeyPatch, gone: tuple[str, ...], named: str
) -> None:
    project.tools = replace(project.tools, **dict.fromkeys(gone))
    monkeypatch.setattr("sparkctl.workflows.code.run_build", lambda *_, **__: pytest.fail("built"))
    result = project.call("sass", "merge")
    assert (result.code, result.out) == (3, "")
    assert result.err == (
        f"error: {named}: looked beside nvcc, at the nvidia wheels and on PATH\nhint: pip install 'sparkctl[toolchain]'\n"
    )


def test_an_interrupt_ends_it_with_130(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    (project.root / "tools" / "nvdisasm").write_text("#!/bin/sh\nkill -INT $PPID\nsleep 0.2\n", encoding="utf-8")
    result = project.call("sass", "ring")
    assert (result.code, result.out, result.err) == (130, "", "error: interrupted\n")
    assert not list((project.root / "build").rglob("*.sass"))


@pytest.fixture
def then(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Another revision: ring.bf16 had one more FADD and more registers, ring.fp16 is the same but for registers' numbers,
    merge was not there yet, and old was there still."""
    root = project.root / "then"
    root.mkdir()
    text = REGISTRY.replace("  merge:", "  old:").replace("source: merge.cu", "source: old.cu")
    (root / "flags.yaml").write_text(text, encoding="utf-8")
    for kernel in ("old", "ring", "warped"):
        (root / f"{kernel}.cu").touch()
    made = Project(root, project.call, project.tools)
    for name in ("ring.bf16.d64", "ring.fp16.d64"):
        code = project.object(name).read_text(encoding="utf-8")
        log = project.object(name).with_suffix(".ptxas").read_text(encoding="utf-8")
        if name == "ring.bf16.d64":
            code = code.replace("VIADD R11, R11, 0x1", "FADD.FTZ R11, R11, R12")
            log = log.replace("Used 18 registers", "Used 24 registers").replace(*SPILL)
        made.write_object(name, code.replace("R13", "R31"), log)

    def open_revision(registry: Any, name: str, environ: Any) -> Revision:
        return Revision(name, "0123456789abcdef", load_registry(root / "flags.yaml"), root / "build")

    monkeypatch.setattr("sparkctl.workflows.code_vs.open_revision", open_revision)
    return made


def test_vs_shows_what_changed_and_counts_the_rest(project: Project, then: Project) -> None:
    result = project.call("sass", "--where", "dtype=bf16,fp16", "--vs", "HEAD~1", columns=80)
    assert (result.code, result.err) == (0, "")
    assert result.out == screen("""
HEAD~1 (0123456789ab) → here

ring.bf16.d64  sm_90  changed
scale_rows
24 → 18 registers, !spills 4/8 → 0/0 B; 33 instructions, 11 of them in loops

kind        all  loops  of these
FP32      2 → 1  2 → 1  FADD 1 → 0
integer  9 → 10  3 → 4  VIADD 1 → 2

merge.bf16  sm_90  new
18 registers, 33 instructions

the same: 1 of 3 kernels
gone: old.bf16
compared without addresses, numbers of registers, predicates, barriers and
labels, and .reuse
nvcc 13.0.88, profile release
""")
    assert max(map(len, project.call("sass", "ring", "--vs", "x", columns=120).out.splitlines())) <= 120


def test_vs_with_verbose_shows_the_same_too(project: Project, then: Project) -> None:
    assert "\nring.fp16.d64  sm_90  same\n" in project.call("sass", "ring", "--vs", "HEAD~1", "-v").out


def test_vs_with_listing_is_a_unified_diff(project: Project, then: Project) -> None:
    assert project.call("sass", "ring.bf16.d64", "--vs", "HEAD~1", "--listing").out == screen("""
--- ring.bf16.d64 sm_90 at HEAD~1 (0123456789ab)
+++ ring.bf16.d64 sm_90 here
@@ -18,7 +18,7 @@
       ULDC UR4, c[0x0][0x224]
       IMAD.WIDE.U32 R2, R9, 0x4, R4
       LDG.E R3, desc[UR6][R2.64]
-      FADD.FTZ R11, R11, R12
+      VIADD R11, R11, 0x1
       VIADD R9, R9, UR4
       ISETP.GE.AND P0, PT, R11, UR8, PT
       STS [R0], R3
# compared without addresses, numbers of registers, predicates, barriers and labels, and .reuse
""")
    same = project.call("sass", "ring.fp16.d64", "--vs", "HEAD~1", "--listing").out.splitlines()
    assert same[2].startswith("the code is the same, compared without addresses")
    assert project.call("sass", "merge", "--vs", "HEAD~1", "--listing").out.endswith(
        "\nHEAD~1 (0123456789ab) does not have it"
    )


def test_vs_as_json_has_both_sides_and_the_diff(project: Project, then: Project) -> None:
    data = json.loads(project.call("sass", "ring.bf16.d64", "--vs", "HEAD~1", "--listing", "--json").out)
    (kernel,) = data["kernels"]
    assert (data["vs"], data["commit"], kernel["status"]) == ("HEAD~1 (0123456789ab)", "0123456789abcdef", "changed")
    assert (kernel["old"]["registers"], kernel["new"]["registers"]) == (24, 18)
    assert [line for line in kernel["diff"] if line[0] != " "] == [
        "-      FADD.FTZ R11, R11, R12",
        "+      VIADD R11, R11, 0x1",
    ]
    data = json.loads(project.call("sass", "--where", "dtype=bf16,fp16", "--vs", "x", "--json").out)
    assert [kernel["status"] for kernel in data["kernels"]] == ["changed", "same", "new"]
    assert data["gone"] == ["old.bf16"]


def test_code_that_was_only_reordered_is_said(project: Project, then: Project) -> None:
    code = project.object("ring.fp16.d64").read_text(encoding="utf-8")
    first, second = "VIADD R11, R11, 0x1", "VIADD R9, R9, UR4"
    swapped = code.replace(first, "MARK").replace(second, first).replace("MARK", second)
    then.write_object("ring.fp16.d64", swapped, (DATA / "ring.log").read_text(encoding="utf-8").replace(*SPILL))
    out = project.call("sass", "ring.fp16.d64", "--vs", "x").out
    assert "\nthe same mix: instructions were exchanged or moved, --listing shows them\n" in out


def test_other_registers_alone_are_a_change_and_no_exchange(project: Project, then: Project) -> None:
    log = (DATA / "ring.log").read_text(encoding="utf-8").replace("Used 18", "Used 20")
    then.write_object("ring.fp16.d64", project.object("ring.fp16.d64").read_text(encoding="utf-8"), log)
    out = project.call("sass", "ring.fp16.d64", "--vs", "x").out
    assert "ring.fp16.d64  sm_90  changed\nscale_rows\n20 → 18 registers, !spills 0/0 → 4/8 B; 33 instructions" in out
    assert "the same mix" not in out


def test_an_axis_that_the_revision_did_not_have_narrows_this_tree_alone(project: Project, then: Project) -> None:
    axes = "head_dim: {values: [64], short: d}"
    newer = REGISTRY.replace(axes, axes + "\n      stages: {values: [2], short: s, default: 2}")
    (project.root / "flags.yaml").write_text(newer, encoding="utf-8")
    result = project.call("sass", "ring", "--where", "stages=2", "--vs", "x")
    assert (result.code, result.err) == (0, "")
    assert "\nthe same: 1 of 2 kernels\n" in result.out


def test_vs_outside_of_a_repository_builds_nothing(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(project.root.parent))
    monkeypatch.setattr("sparkctl.workflows.code.run_build", lambda *_, **__: pytest.fail("built"))
    result = project.call("sass", "ring", "--vs", "x")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"error: --vs x: {project.root} is in no git repository\n")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("ring", "--vs=-x"), "error: --vs -x: not a revision\nhint: a commit, branch or tag: --vs HEAD~1\n"),
        (("ring", "--vs", ""), "error: --vs : not a revision\nhint: a commit, branch or tag: --vs HEAD~1\n"),
        (("ring", "--vs", "x", "--listing"), "error: --listing shows one variant, 2 are selected\n"),
        (("merge", "--vs", "x", "--by-line"), "error: --by-line and --vs exclude each other\n"),
    ],
)
def test_wrong_comparisons(project: Project, words: tuple[str, ...], error: str) -> None:
    result = project.call("sass", *words)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(error)


def test_a_revision_whose_code_cannot_be_read_is_named(project: Project, then: Project) -> None:
    then.write_object("ring.bf16.d64", "nothing", (DATA / "ring.log").read_text(encoding="utf-8"))
    result = project.call("sass", "ring.bf16.d64", "--vs", "HEAD~1")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("error: HEAD~1 (0123456789ab): ")
    assert "no SASS for sm_90 in it" in result.err
