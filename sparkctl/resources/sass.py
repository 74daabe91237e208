"""Parses `nvdisasm -c` (also with -g or -gi) and says what kind each SASS instruction is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sparkctl.errors import WorkFailed
from sparkctl.resources.code import Flow, Function, Instruction, Kind, Place, find_loops

GROUPS = (
    *("global load", "async copy", "bulk copy", "global store", "shared load", "matrix load", "shared store"),
    *("local load", "local store", "atomic", "constant load", "tensor core", "FP32", "FP16", "FP64", "MUFU"),
    *("conversion", "shuffle", "barrier", "wait", "integer", "branch", "move", "other"),
)
LOCAL = ("local load", "local store")  # spills, and arrays that a thread indexes

_SECTION = re.compile(r"^\s*\.section\s+\.text\.(?P<name>[^,\s]+)")
_OTHER_SECTION = re.compile(r"^\s*\.section\s|^//-{5,}")
_TARGET = re.compile(r"^\s*\.target\s+(?P<arch>sm_\w+)")
_SIZE = re.compile(r"^\s*\.size\s+(?P<name>\S+?),\s*\((?P<end>\S+) - ")
_LABEL = re.compile(r"^(?P<label>[.$\w]+):$")
_PLACE = re.compile(r'^\s*//## File "(?P<file>[^"]*)", line (?P<line>\d+)(?P<inlined> inlined at )?')
_INSTRUCTION = re.compile(
    r"^\s*/\*(?P<address>[0-9a-f]{4,})\*/\s+\{?\s*(?:(?P<guard>@!?U?P\w+)\s+)?(?P<opcode>[A-Z][\w.]*)\s*(?P<operands>.*?)\s*;"
)
_REFERENCE = re.compile(r"`\((?P<label>[^()\s]+)\)")
_STEP = 16  # bytes of an instruction since sm_70


@dataclass
class _Section:
    """What is read of one function."""

    name: str
    arch: str | None
    end: str | None = None  # the label behind the last instruction
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    callees: list[str] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    chained: bool = False  # the next place is where the last one was inlined


def parse_sass(text: str, *, root: str = "") -> tuple[Function, ...]:
    """Every function of the listing; sources below the folder `root` are named from there.

    WorkFailed for text that is no listing, that ends early or in which instructions are missing.
    """
    sections: list[_Section] = []
    current: _Section | None = None
    arch = None
    prefix = f"{root}/" if root else ""
    for number, line in enumerate(text.splitlines(), start=1):
        if match := _TARGET.match(line):
            arch = match["arch"]
        elif match := _SECTION.match(line):
            current = _Section(match["name"], arch)
            sections.append(current)
        elif _OTHER_SECTION.match(line):
            current = None
        elif current is not None:
            _read_line(current, line, number, prefix)
    if not sections:
        raise WorkFailed("no SASS in it", hint="PTX alone has none: build it for an arch, sm_90, not compute_90")
    return tuple(_finish(section) for section in sections)


def _read_line(section: _Section, line: str, number: int, prefix: str) -> None:
    if match := _INSTRUCTION.match(line):
        _add_instruction(section, match, number)
    elif line.lstrip().startswith("/*"):
        raise WorkFailed(f"line {number} of the listing is no whole instruction: {line.strip()}")
    elif match := _PLACE.match(line):
        place = Place(match["file"].removeprefix(prefix), int(match["line"]))
        section.places = [*section.places, place] if section.chained else [place]
        section.chained = bool(match["inlined"])
    elif match := _SIZE.match(line):
        if match["name"] == section.name:
            section.end = match["end"]
    elif (match := _LABEL.match(line)) and not match["label"].startswith(".text."):
        label = match["label"]
        section.labels[label] = len(section.instructions)
        if not label.startswith(".") and label != section.name:
            section.callees.append(label)


def _add_instruction(section: _Section, match: re.Match[str], number: int) -> None:
    address = int(match["address"], 16)
    expected = section.instructions[-1].address if section.instructions else -_STEP
    assert expected is not None
    if address != expected + _STEP:
        raise WorkFailed(f"line {number} of the listing is at {address:#x}: what was before it is missing")
    operands = _REFERENCE.sub(r"\g<label>", match["operands"])
    targets = tuple(found["label"] for found in _REFERENCE.finditer(match["operands"]))
    section.instructions.append(
        Instruction(match["opcode"], operands, match["guard"] or "", address, targets, tuple(section.places))
    )
    section.chained = False


def _finish(section: _Section) -> Function:
    if not section.instructions or section.end is None or section.end not in section.labels:
        raise WorkFailed(f"the listing of {section.name} ends early", hint="sparkctl build makes the object again")
    kept = section.instructions[: _without_padding(section)]
    flows = [_flow(instruction) for instruction in kept]
    labels = {label: position for label, position in section.labels.items() if position < len(kept)}
    entries = [0, *(labels[callee] for callee in section.callees if callee in labels)]
    return Function(
        name=section.name,
        arch=section.arch,
        instructions=tuple(kept),
        labels=labels,
        callees=tuple(section.callees),
        loops=find_loops(flows, labels, entries),
    )


def _without_padding(section: _Section) -> int:
    """How many instructions are left without the NOPs at the end and the branch to itself ahead of them."""
    count = len(section.instructions)
    while count and section.instructions[count - 1].opcode == "NOP":
        count -= 1
    last = section.instructions[count - 1]
    to_itself = last.opcode == "BRA" and any(section.labels.get(label) == count - 1 for label in last.targets)
    return count - 1 if to_itself else count


def _flow(instruction: Instruction) -> Flow:
    base = instruction.opcode.partition(".")[0]
    guarded = bool(instruction.guard) and instruction.guard != "@PT"
    if base in ("EXIT", "KILL", "RET"):
        return Flow(falls=guarded)
    if base in ("BRX", "JMX", "BRXU", "JMXU"):
        return Flow(falls=guarded, unknown=True)
    if base in ("BRA", "JMP"):
        # BRA.DIV UR4, target and BRA.U UP0, target take their condition as an operand.
        return Flow(falls=guarded or "," in instruction.operands, targets=instruction.targets)
    return Flow(falls=True)


def sass_kind(instruction: Instruction) -> Kind:
    """The group and the name to count it under: the opcode with the modifiers that matter."""
    base, *modifiers = instruction.opcode.split(".")
    group = _group(base, modifiers, instruction)
    return group, _name(group, base, modifiers)


_EXACT: Mapping[str, str] = {
    name: group
    for group, names in {
        "global load": "LDG LD",
        "async copy": "LDGSTS",
        "bulk copy": "UBLKCP UBLKRED UBLKPF UTMALDG UTMASTG UTMAREDG UTMAPF UTMACCTL",
        "global store": "STG ST",
        "shared load": "LDS LDS_LDU",
        "matrix load": "LDSM LDTM LDT",
        "shared store": "STS STSM STAS",
        "local load": "LDL",
        "local store": "STL",
        "atomic": "ATOM ATOMG ATOMS RED REDG REDAS SUATOM SURED",
        "constant load": "LDC LDCU ULDC",
        "FP32": "FFMA FADD FMUL FMNMX FMNMX3 FSEL FSET FSETP FSWZADD FCHK RRO FFMA2 FADD2 FMUL2 "
        "FFMA32I FADD32I FMUL32I",
        "MUFU": "MUFU",
        "shuffle": "SHFL VOTE VOTEU MATCH REDUX CREDUX",
        "barrier": "BAR WARPSYNC SYNCS UCGABAR_ARV UCGABAR_WAIT MEMBAR FENCE ARRIVES B2R UCGABAR_GET UCGABAR_SET",
        "wait": "DEPBAR LDGDEPBAR UTMACMDFLUSH NANOSLEEP WARPGROUP WARPGROUPSET ACQBULK PREEXIT ERRBAR CCTL UTCBAR",
        "branch": "BRA BRX BRXU JMP JMX JMXU EXIT RET CALL BSSY BSYNC BREAK BMOV BPT KILL YIELD RPCMOV WARPEXIT",
        "move": "MOV MOV32I SEL PRMT S2R S2UR CS2R CS2UR R2UR UMOV USEL UPRMT P2R R2P PLOP3 UPLOP3 UP2UR UR2UP UR2P "
        "MOVM SGXT USGXT REDUXU R2B",
        "integer": "IADD3 IADD IADD32I IADD2 IMAD IMUL ISETP ISET IMNMX IABS ISCADD LEA LOP LOP3 LOP32I SHF SHL SHR "
        "XMAD POPC FLO BREV BMSK BFE BFI IDP IDP4A VABSDIFF VABSDIFF4 VADD VIADD VIADDMNMX VIMNMX VIMNMX3 VHMNMX",
        "other": "NOP",
    }.items()
    for name in names.split()
}
_CONVERSIONS = re.compile(r"^U?(?:F2F|F2FP|F2I|F2IP|I2F|I2FP|I2I|I2IP|FRND)$")
_TENSOR = re.compile(r"^(?:[HIDQBO]G?MMA|UTC\w*MMA|WGMMA)$")


def _group(base: str, modifiers: Sequence[str], instruction: Instruction) -> str:
    if base == "IMAD" and _is_move(modifiers, instruction):
        return "move"
    if base in _EXACT:
        return _EXACT[base]
    if _TENSOR.match(base):
        return "tensor core"
    if _CONVERSIONS.match(base):
        return "conversion"
    for prefix, group in (("UTC", "wait"), ("H", "FP16"), ("D", "FP64")):
        if base.startswith(prefix) and base[1:4] in ("ADD", "MUL", "FMA", "SET", "MNM", "FMA"):
            return group
    return _EXACT.get(base[1:], "other") if base.startswith("U") else "other"  # the uniform data path


def _is_move(modifiers: Sequence[str], instruction: Instruction) -> bool:
    """IMAD.MOV, and what multiplies zero by zero."""
    words = [word.strip() for word in instruction.operands.split(",")]
    return "MOV" in modifiers or ("U32" in modifiers and words[1:3] == ["RZ", "RZ"])


_WIDTHS = ("U8", "S8", "U16", "S16", "64", "128", "256")
_MEMORY = (
    *("global load", "async copy", "global store", "shared load", "shared store", "local load", "local store"),
    "constant load",
)


def _name(group: str, base: str, modifiers: Sequence[str]) -> str:
    """Memory by width (32 bits unless it says otherwise), tensor cores by shape and type, MUFU by function."""
    if group in _MEMORY:
        return f"{base}.{next((word for word in modifiers if word in _WIDTHS), '32')}"
    if group == "matrix load":
        return ".".join([base, *modifiers[-1:]]) + (".T" if any("MT" in word for word in modifiers) else "")
    if group in ("tensor core", "MUFU", "shuffle", "atomic", "bulk copy"):
        return ".".join([base, *modifiers])
    if group == "move" and base == "IMAD":
        return "IMAD.MOV"
    if group == "barrier":
        return ".".join([base, *modifiers[:1]])
    return base
