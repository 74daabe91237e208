"""The parsers of SASS and PTX on real listings, damaged ones and made-up ones; loops; kinds of instructions."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkctl.errors import WorkFailed
from sparkctl.resources.code import Flow, Instruction, Place, count_lines, count_mix, find_loops
from sparkctl.resources.ptx import parse_ptx, ptx_kind
from sparkctl.resources.sass import GROUPS, parse_sass, sass_kind

DATA = Path(__file__).parents[2] / "data" / "sass"
SASS = (DATA / "ring.sass").read_text(encoding="utf-8")
PTX = (DATA / "ring.ptx").read_text(encoding="utf-8")


def listing(*body: str, name: str = "k", end: bool = True) -> str:
    """A listing of lines that are labels or instructions, with the addresses filled in."""
    lines = [
        f'\t.section\t.text.{name},"ax",@progbits',
        f"        .size           {name},(.L_end - {name})",
        f"{name}:",
    ]
    address = 0
    for line in body:
        if line.endswith(":"):
            lines.append(line)
        else:
            lines.append(f"        /*{address:04x}*/                   {line} ;")
            address += 16
    return "\n".join(["\t.target\tsm_90", *lines, *([".L_end:"] if end else []), ""])


def looped(*body: str) -> list[int]:
    (function,) = parse_sass(listing(*body))
    return sorted(function.looped)


def test_a_listing_is_read_with_every_instruction_and_without_the_padding() -> None:
    (function,) = parse_sass(SASS, root="/project")
    written = [line for line in SASS.splitlines() if line.lstrip().startswith("/*") and "NOP" not in line]
    assert (function.name, function.arch) == ("scale_rows", "sm_90")
    assert len(function.instructions) == len(written) - 1  # the branch to itself behind EXIT
    assert function.instructions[-1].opcode == "EXIT"
    guarded = [instruction for instruction in function.instructions if instruction.guard]
    assert {instruction.guard for instruction in guarded} == {"@!P0"}


def test_every_instruction_has_its_source_line_and_names_from_the_root() -> None:
    (function,) = parse_sass(SASS, root="/project")
    lines = {line.place: line for line in count_lines(function, sass_kind)}
    source = (DATA / "ring.cu").read_text(encoding="utf-8").splitlines()
    store = next(number for number, text in enumerate(source, start=1) if "exp2f" in text)
    assert lines[Place("csrc/ring.cu", store)].groups["MUFU"] == 1
    assert lines[Place("csrc/ring.cu", store)].groups["global store"] == 1
    assert sum(line.count for line in lines.values()) == len(function.instructions)
    assert list(lines) == sorted(lines, key=lambda place: place.line if place else 0)


def test_inlined_code_has_the_places_that_it_was_inlined_at() -> None:
    text = listing("MOV R1, R2", "EXIT").replace(
        "        /*0000*/",
        '\t//## File "/p/a.h", line 7 inlined at "/p/b.h", line 8\n'
        '\t//## File "/p/b.h", line 8 inlined at "/p/c.cu", line 9\n\t//## File "/p/c.cu", line 9\n        /*0000*/',
    )
    (function,) = parse_sass(text, root="/p")
    assert function.instructions[0].places == (Place("a.h", 7), Place("b.h", 8), Place("c.cu", 9))
    assert function.instructions[1].places == function.instructions[0].places


def test_the_mix_counts_all_and_what_is_in_the_loop() -> None:
    (function,) = parse_sass(SASS)
    mix = count_mix(function, sass_kind, GROUPS)
    assert mix.looped is not None
    for kind in (("global load", "LDG.32"), ("shared load", "LDS.32"), ("shared store", "STS.32")):
        assert (mix.all[kind], mix.looped[kind]) == (1, 1)
    assert (mix.all["MUFU", "MUFU.EX2"], mix.looped.get(("MUFU", "MUFU.EX2"), 0)) == (1, 0)
    assert mix.all["barrier", "BAR.SYNC"] == mix.looped["barrier", "BAR.SYNC"] == 2
    assert mix.total == len(function.instructions)
    assert mix.total_looped == len(function.looped)


def test_ptx_has_the_same_loop_lines_and_kinds() -> None:
    (function,) = parse_ptx(PTX, root="/project")
    mix = count_mix(function, ptx_kind, GROUPS)
    assert mix.looped is not None
    assert (mix.all["global load", "ld.global.f32"], mix.looped["global load", "ld.global.f32"]) == (1, 1)
    assert mix.all["MUFU", "ex2.approx.ftz.f32"] == 1
    assert mix.looped["barrier", "bar.sync"] == 2
    assert function.loops is not None and len(function.loops) == 1
    body = [line for line in PTX.split("\n{\n")[1].splitlines() if line.endswith(";")]
    directives = [line for line in body if line.strip().startswith(".")]
    assert mix.total == len(body) - len(directives)
    store = next(i for i in function.instructions if i.opcode == "st.global.f32")
    assert store.place is not None and store.place.file == "csrc/ring.cu"


@pytest.mark.parametrize(("text", "parse"), [(SASS, parse_sass), (PTX, parse_ptx)])
@given(data=st.data())
def test_text_cut_short_is_an_error_or_whole(text: str, parse: object, data: st.DataObject) -> None:
    whole = parse(text)  # type: ignore[operator]
    cut = text[: data.draw(st.integers(0, len(text)))]
    try:
        found = parse(cut)  # type: ignore[operator]
    except WorkFailed:
        return
    assert [f.instructions for f in found][:1] == [f.instructions for f in whole] or parse is parse_ptx
    assert [i.text for i in found[0].instructions] == [i.text for i in whole[0].instructions]


@given(data=st.data())
def test_a_listing_that_lacks_a_line_of_code_is_an_error(data: st.DataObject) -> None:
    lines = SASS.splitlines()
    code = [number for number, line in enumerate(lines) if line.lstrip().startswith("/*")]
    del lines[data.draw(st.sampled_from(code[:-1]))]
    with pytest.raises(WorkFailed, match="missing"):
        parse_sass("\n".join(lines))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no SASS"),
        ("\t.target\tsm_90\n", "no SASS"),
        ("\0\1\2 garbage \n" * 3, "no SASS"),
        (listing("MOV R1, R2", "EXIT", end=False), "ends early"),
        (listing(), "ends early"),
        (listing("EXIT").replace("EXIT ;", "EXI"), "no whole instruction"),
    ],
)
def test_what_is_no_listing_is_said(text: str, message: str) -> None:
    with pytest.raises(WorkFailed, match=message):
        parse_sass(text)


@pytest.mark.parametrize("text", ["", "garbage", ".version 9.0\n.target sm_90\n", ".visible .entry k", ".entry k(\n"])
def test_what_holds_no_kernel_is_no_ptx(text: str) -> None:
    with pytest.raises(WorkFailed):
        parse_ptx(text)


def test_a_branch_back_to_what_leads_there_is_a_loop() -> None:
    assert looped("MOV R0, R1", ".L1:", "FADD R0, R0, R1", "@P0 BRA `(.L1)", "EXIT") == [1, 2]


def test_a_branch_back_from_code_moved_out_of_line_is_no_loop() -> None:
    assert looped("@P0 BRA `(.L2)", ".L1:", "MOV R0, R1", "EXIT", ".L2:", "MOV R0, R2", "BRA `(.L1)") == []


def test_code_moved_out_of_line_of_a_loop_is_in_it() -> None:
    body = (".L1:", "@P0 BRA `(.L2)", ".L3:", "@P1 BRA `(.L1)", "EXIT", ".L2:", "MOV R0, R2", "BRA `(.L3)")
    assert looped(*body) == [0, 1, 3, 4]


def test_branches_with_the_condition_as_an_operand_fall_through() -> None:
    assert looped(".L1:", "FADD R0, R0, R1", "BRA.U UP0, `(.L1)", "MOV R1, R2", "EXIT") == [0, 1]


def test_nested_loops_have_depths() -> None:
    (function,) = parse_sass(listing(".L1:", "MOV R0, R1", ".L2:", "@P0 BRA `(.L2)", "@P1 BRA `(.L1)", "EXIT"))
    assert function.loops is not None
    assert [(loop.head, sorted(loop.body), loop.depth) for loop in function.loops] == [(0, [0, 1, 2], 1), (1, [1], 2)]


def test_an_indirect_branch_hides_the_loops() -> None:
    (function,) = parse_sass(listing(".L1:", "BRX R2 -0x10", "@P0 BRA `(.L1)", "EXIT"))
    mix = count_mix(function, sass_kind, GROUPS)
    assert function.loops is None and mix.looped is None and mix.total_looped is None


def test_a_subroutine_has_loops_of_its_own_and_is_named() -> None:
    text = listing("CALL.REL.NOINC `($k$slow)", "EXIT", "$k$slow:", ".L1:", "@P0 BRA `(.L1)", "RET.REL.NODEC R2 `(k)")
    (function,) = parse_sass(text)
    assert function.callees == ("$k$slow",)
    assert sorted(function.looped) == [2]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 11)), min_size=1, max_size=12))
def test_loops_are_what_a_search_over_all_ways_finds(code: list[tuple[bool, int]]) -> None:
    """A loop's body is strongly connected, and its head is on every way to it."""
    flows = [Flow(falls=falls, targets=(f"L{target}",)) for falls, target in code]
    labels = {f"L{n}": n for n in range(len(code))}
    loops = find_loops(flows, labels)
    assert loops is not None

    def ahead(position: int) -> set[int]:
        falls, target = code[position]
        return {to for to in ([position + 1] if falls else []) + [target] if to < len(code)}

    def reach(start: int, without: int | None = None) -> set[int]:
        found, waiting = set[int](), [start] if start != without else []
        while waiting:
            position = waiting.pop()
            if position not in found and position != without:
                found.add(position)
                waiting += ahead(position)
        return found

    reached = reach(0)
    for tail in reached:
        for head in ahead(tail):
            dominates = tail not in reach(0, without=head)
            assert dominates == any(loop.head == head and tail in loop.body for loop in loops) or not dominates
    for loop in loops:
        for position in loop.body & reached:
            assert position not in reach(0, without=loop.head)
            assert loop.head in reach(position)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("LDG.E.128.CONSTANT R4, desc[UR4][R2.64]", ("global load", "LDG.128")),
        ("LDG.E.U8 R4, [R2]", ("global load", "LDG.U8")),
        ("LDG.E R4, [R2]", ("global load", "LDG.32")),
        ("LDGSTS.E.BYPASS.LTC128B.128 [R4], [R2.64]", ("async copy", "LDGSTS.128")),
        ("LDGDEPBAR ", ("wait", "LDGDEPBAR")),
        ("DEPBAR.LE SB0, 0x1", ("wait", "DEPBAR")),
        ("LDSM.16.MT88.4 R8, [R4]", ("matrix load", "LDSM.4.T")),
        ("LDSM.16.M88.2 R8, [R4]", ("matrix load", "LDSM.2")),
        ("STL.64 [R1], R2", ("local store", "STL.64")),
        ("LDL R2, [R1]", ("local load", "LDL.32")),
        ("HMMA.16816.F32.BF16 R4, R8, R2, R4", ("tensor core", "HMMA.16816.F32.BF16")),
        ("HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24", ("tensor core", "HGMMA.64x128x16.F32.BF16")),
        ("IMMA.16832.S8.S8 R4, R8.ROW, R2.COL, R4", ("tensor core", "IMMA.16832.S8.S8")),
        ("UTCHMMA gdesc[UR8], gdesc[UR10], tmem[UR6]", ("tensor core", "UTCHMMA")),
        ("UTMALDG.2D [UR8], [UR4]", ("bulk copy", "UTMALDG.2D")),
        ("FFMA.FTZ R1, R2, R3, R4", ("FP32", "FFMA")),
        ("HFMA2.MMA R1, R2, R3, R4", ("FP16", "HFMA2")),
        ("HADD2.F32 R1, -RZ, R2.H0_H0", ("FP16", "HADD2")),
        ("DFMA R2, R4, R6, R8", ("FP64", "DFMA")),
        ("MUFU.EX2 R1, R2", ("MUFU", "MUFU.EX2")),
        ("F2FP.BF16.F32.PACK_AB R1, R2, R3", ("conversion", "F2FP")),
        ("SHFL.BFLY PT, R1, R2, 0x10, 0x1f", ("shuffle", "SHFL.BFLY")),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", ("barrier", "BAR.SYNC")),
        ("WARPSYNC 0xffffffff", ("barrier", "WARPSYNC")),
        ("IMAD.MOV.U32 R1, RZ, RZ, R2", ("move", "IMAD.MOV")),
        ("IMAD.U32 R1, RZ, RZ, UR4", ("move", "IMAD.MOV")),
        ("IMAD.WIDE.U32 R2, R4, 0x4, R6", ("integer", "IMAD")),
        ("UIADD3 UR4, UR4, 0x1, URZ", ("integer", "UIADD3")),
        ("ULDC.64 UR4, c[0x0][0x208]", ("constant load", "ULDC.64")),
        ("BSSY B0, `(.L1)", ("branch", "BSSY")),
        ("ATOMG.E.ADD.STRONG.GPU PT, R2, [R4], R6", ("atomic", "ATOMG.E.ADD.STRONG.GPU")),
        ("FROBNICATE R1, R2", ("other", "FROBNICATE")),
    ],
)
def test_kinds_of_sass(text: str, kind: tuple[str, str]) -> None:
    opcode, _, operands = text.partition(" ")
    assert sass_kind(Instruction(opcode, operands)) == kind


@pytest.mark.parametrize(
    ("opcode", "group"),
    [
        ("ld.global.nc.L2::128B.v4.u32", "global load"),
        ("ld.u8", "global load"),
        ("ld.shared::cta.b32", "shared load"),
        ("ld.param.u64", "constant load"),
        ("st.local.f32", "local store"),
        ("cp.async.cg.shared.global.L2::128B", "async copy"),
        ("cp.async.commit_group", "wait"),
        ("cp.async.wait_group", "wait"),
        ("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes", "bulk copy"),
        ("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", "matrix load"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "tensor core"),
        ("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16", "tensor core"),
        ("wgmma.commit_group.sync.aligned", "wait"),
        ("fma.rn.ftz.f32", "FP32"),
        ("fma.rn.bf16x2", "FP16"),
        ("add.f64", "FP64"),
        ("add.s32", "integer"),
        ("setp.lt.ftz.f32", "FP32"),
        ("setp.lt.s32", "integer"),
        ("ex2.approx.ftz.f32", "MUFU"),
        ("cvt.rn.bf16x2.f32", "conversion"),
        ("shfl.sync.bfly.b32", "shuffle"),
        ("barrier.cluster.arrive", "barrier"),
        ("mbarrier.try_wait.shared.b64", "barrier"),
        ("bra.uni", "branch"),
        ("mov.b64", "move"),
        ("frobnicate.b32", "other"),
    ],
)
def test_kinds_of_ptx(opcode: str, group: str) -> None:
    assert ptx_kind(Instruction(opcode, "")) == (group, opcode)


def test_inline_assembly_in_a_block_of_its_own_is_counted() -> None:
    text = """
.target sm_90
.func (.param .b32 r) helper(.param .b32 a) { ret; }
.visible .entry k(
	.param .u64 p
)
{
	// begin inline asm
	{.reg .pred p;
	setp.ne.b32 p, %r1, 0;
	@p cp.async.cg.shared.global [%r1], [%rd1], 16;}

	// end inline asm
	call.uni (retval0), helper, (param0);
	ret;
}
"""
    (function,) = parse_ptx(text)
    assert Counter(i.opcode for i in function.instructions) == {
        "setp.ne.b32": 1, "cp.async.cg.shared.global": 1, "call.uni": 1, "ret": 1,
    }  # fmt: skip
    assert function.callees == ("helper",)
