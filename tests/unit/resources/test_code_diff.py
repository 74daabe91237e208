"""Diffs of code: what counts as a difference, and that nothing is lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkctl.resources.code import Function, Instruction, count_mix
from sparkctl.resources.code_diff import diff_code, diff_mix, normalise, same_code
from sparkctl.resources.ptx import parse_ptx
from sparkctl.resources.sass import GROUPS, parse_sass, sass_kind

DATA = Path(__file__).parents[2] / "data" / "sass"
(RING,) = parse_sass((DATA / "ring.sass").read_text(encoding="utf-8"))
(RING_PTX,) = parse_ptx((DATA / "ring.ptx").read_text(encoding="utf-8"))


def edited(function: Function, old: str, new: str) -> Function:
    """With another opcode or operands where the text holds `old`."""
    changed = []
    for instruction in function.instructions:
        opcode, _, operands = instruction.text.replace(old, new).partition(" ")
        changed.append(replace(instruction, opcode=opcode, operands=operands))
    return replace(function, instructions=tuple(changed))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("@!P0 BRA .L_x_12", "@!P BRA .L"),
        ("LDG.E R3, desc[UR6][R2.64+0x10]", "LDG.E R, desc[UR][R.64+0x10]"),
        ("LEA R15, R18.reuse, R16, 0x1", "LEA R, R, R, 0x1"),
        ("ISETP.GT.AND P0, PT, R2, RZ, PT", "ISETP.GT.AND P, PT, R, RZ, PT"),
        ("ULDC.64 UR6, c[0x0][0x208]", "ULDC.64 UR, c[0x0][0x208]"),
        ("HMMA.16816.F32.BF16 R4, R8, R2, R4", "HMMA.16816.F32.BF16 R, R, R, R"),
        ("BSSY B0, .L_x_1", "BSSY B, .L"),
        ("@%p3 bra $L__BB0_4", "@%p bra $L"),
        ("mov.u32 %r17, %tid.x", "mov.u32 %r, %tid.x"),
        ("mul.wide.u32 %rd4, %r17, 4", "mul.wide.u32 %rd, %r, 4"),
    ],
)
def test_numbers_that_the_compiler_hands_out_do_not_count(text: str, key: str) -> None:
    guard, _, rest = text.partition(" ") if text.startswith("@") else ("", "", text)
    opcode, _, operands = rest.partition(" ")
    assert normalise(Instruction(opcode, operands, guard)).strip() == key


@pytest.mark.parametrize("function", [RING, RING_PTX], ids=["sass", "ptx"])
def test_other_registers_are_the_same_code(function: Function) -> None:
    renamed = edited(edited(function, "R3", "R77"), "%rd4", "%rd44")
    assert renamed != function
    assert same_code(function, renamed) and diff_code(function, renamed) == ()


def test_another_opcode_is_shown_with_its_neighbours() -> None:
    (hunk,) = diff_code(RING, edited(RING, "MUFU.EX2", "MUFU.LG2"))
    assert [line.mark for line in hunk.lines] == [" ", " ", " ", "-", "+", " ", " ", " "]
    assert [line.text.split()[0] for line in hunk.lines if line.mark != " "] == ["MUFU.EX2", "MUFU.LG2"]
    assert hunk.old_count == hunk.new_count == 7
    assert RING.instructions[hunk.old_start + 2].opcode == "MUFU.EX2"


def test_an_offset_is_a_difference() -> None:
    assert not same_code(RING, edited(RING, "c[0x0][0x224]", "c[0x0][0x228]"))


def test_the_mix_names_the_kinds_that_changed_alone() -> None:
    old = count_mix(RING, sass_kind, GROUPS)
    new = count_mix(edited(RING, "STS [R0]", "STL [R0]"), sass_kind, GROUPS)
    store, local = diff_mix(old, new)
    assert (store.group, store.all, store.looped) == ("shared store", (1, 0), (1, 0))
    assert dict(store.names) == {"STS.32": (1, 0)}
    assert (local.group, local.all, local.looped) == ("local store", (0, 1), (0, 1))
    assert list(diff_mix(old, old)) == []


@given(st.lists(st.sampled_from("ABC"), max_size=30), st.lists(st.sampled_from("ABC"), max_size=30))
def test_a_diff_leads_from_the_old_code_to_the_new(before: list[str], after: list[str]) -> None:
    old, new = (replace(RING, instructions=tuple(Instruction(x, "") for x in code)) for code in (before, after))
    hunks = diff_code(old, new, context=100)
    lines = [line for hunk in hunks for line in hunk.lines]
    if before == after:
        assert lines == []
        return
    assert [line.text.strip() for line in lines if line.mark != "+"] == before
    assert [line.text.strip() for line in lines if line.mark != "-"] == after
