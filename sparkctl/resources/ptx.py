"""Parses PTX as nvcc writes it and says what kind each instruction is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkctl.errors import WorkFailed
from sparkctl.resources.code import Flow, Function, Instruction, Kind, Place, find_loops

_TARGET = re.compile(r"^\s*\.target\s+(?P<arch>sm_\w+)", re.MULTILINE)
_FILE = re.compile(r'^\s*\.file\s+(?P<number>\d+)\s+"(?P<path>[^"]*)"', re.MULTILINE)
_ENTRY = re.compile(r"^[^\S\n]*(?:\.(?:visible|weak|extern)\s+)*\.(?P<what>entry|func)\b", re.MULTILINE)
_NAME = re.compile(r"(?P<name>[\w$]+)\s*(?=[(\n.{;])")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_LABEL = re.compile(r"(?P<label>[$\w]+):(?!:)")
_LOC = re.compile(
    r"\.loc\s+(?P<file>\d+)\s+(?P<line>\d+)\s+(?P<column>\d+)"
    r"(?:[^\n]*inlined_at\s+(?P<at_file>\d+)\s+(?P<at_line>\d+)\s+(?P<at_column>\d+))?[^\n]*"
)
_INSTRUCTION = re.compile(r"(?P<guard>@!?%?\w+\s+)?(?P<opcode>[a-z][\w.:]*)\s*(?P<operands>.*)", re.DOTALL)
_LABEL_USE = re.compile(r"(?<![\w%])\$\w+")

_Spot = tuple[str, str, str]  # file, line, column as .loc has them


@dataclass
class _Body:
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    places: tuple[Place, ...] = ()
    inlined_at: dict[_Spot, _Spot] = field(default_factory=dict)


def parse_ptx(text: str, *, root: str = "") -> tuple[Function, ...]:
    """Every kernel; functions that stayed calls are named and counted with none. Sources below `root` as in SASS.

    WorkFailed for text without kernels or one that ends early.
    """
    prefix = f"{root}/" if root else ""
    files = {match["number"]: match["path"].removeprefix(prefix) for match in _FILE.finditer(text)}
    code = _COMMENT.sub("", text)
    target = _TARGET.search(code)
    arch = target["arch"] if target else None
    functions = []
    for match in _ENTRY.finditer(code):
        name, start = _header(code, match)
        if match["what"] == "func":
            continue
        if start is None:
            raise WorkFailed(f"the PTX of {name} ends early")
        functions.append(_function(name, arch, _read_body(code, start, name, files)))
    if not functions:
        raise WorkFailed("no kernel's PTX in it")
    return tuple(functions)


def _header(code: str, match: re.Match[str]) -> tuple[str, int | None]:
    """The name, and where the body begins; None for a declaration or a text that ends before it."""
    start = match.end()
    if match["what"] == "func" and (result := re.compile(r"\s*\([^)]*\)").match(code, start)):
        start = result.end()
    found = _NAME.search(code, start)
    if found is None:
        raise WorkFailed("the PTX ends early")
    brace, semicolon = code.find("{", found.end()), code.find(";", found.end())
    declared = semicolon != -1 and (brace == -1 or semicolon < brace)
    return found["name"], None if declared or brace == -1 else brace


def _read_body(code: str, at: int, name: str, files: Mapping[str, str]) -> _Body:
    """From its brace to the one that closes it; inline assembly opens blocks of its own."""
    body, depth = _Body(), 0
    while at < len(code):
        if code[at].isspace() or code[at] == ";":
            at += 1
        elif code[at] in "{}":
            depth += 1 if code[at] == "{" else -1
            at += 1
            if depth == 0:
                return body
        elif match := _LOC.match(code, at):
            body.places = _places(body, match, files)
            at = match.end()
        elif match := _LABEL.match(code, at):
            body.labels[match["label"]] = len(body.instructions)
            at = match.end()
        else:
            end = code.find(";", at)
            if end == -1:
                break
            _read_statement(body, code[at:end].strip())
            at = end + 1
    raise WorkFailed(f"the PTX of {name} ends early")


def _read_statement(body: _Body, text: str) -> None:
    if text.startswith("."):  # .reg, .shared, .pragma
        return
    match = _INSTRUCTION.fullmatch(text)
    if match is None:
        raise WorkFailed(f"no PTX instruction: {text.splitlines()[0]}")
    operands = " ".join(match["operands"].split())
    targets = tuple(_LABEL_USE.findall(operands))
    guard = (match["guard"] or "").strip()
    body.instructions.append(Instruction(match["opcode"], operands, guard, None, targets, body.places))


def _places(body: _Body, match: re.Match[str], files: Mapping[str, str]) -> tuple[Place, ...]:
    """The line, then where it was inlined; `.loc` names one step, the steps above were said before."""
    spot: _Spot | None = (match["file"], match["line"], match["column"])
    if match["at_file"]:
        body.inlined_at[spot] = (match["at_file"], match["at_line"], match["at_column"])  # type: ignore[index]
    else:
        body.inlined_at.pop(spot, None)  # type: ignore[arg-type]
    chain: list[_Spot] = []
    while spot is not None and spot not in chain:
        chain.append(spot)
        spot = body.inlined_at.get(spot)
    return tuple(Place(files.get(file, f"file {file}"), int(line)) for file, line, _ in chain if line != "0")


def _function(name: str, arch: str | None, body: _Body) -> Function:
    flows = [_flow(instruction) for instruction in body.instructions]
    callees = [word for i in body.instructions if i.opcode.startswith("call") for word in _callee(i)]
    return Function(
        name=name,
        arch=arch,
        instructions=tuple(body.instructions),
        labels={label: position for label, position in body.labels.items() if position < len(flows)},
        callees=tuple(dict.fromkeys(callees)),
        loops=find_loops(flows, body.labels),
    )


def _callee(instruction: Instruction) -> list[str]:
    """`call.uni (retval0), name, (param0)`."""
    words = re.sub(r"\([^)]*\)", "", instruction.operands).split(",")
    return [word.strip() for word in words if re.fullmatch(r"[\w$]+", word.strip())][:1]


def _flow(instruction: Instruction) -> Flow:
    base = instruction.opcode.partition(".")[0]
    if base in ("ret", "exit", "trap"):
        return Flow(falls=bool(instruction.guard))
    if base == "brx":
        return Flow(falls=bool(instruction.guard), unknown=True)
    if base == "bra":
        return Flow(falls=bool(instruction.guard), targets=instruction.targets)
    return Flow(falls=True)


_BY_START: tuple[tuple[str, str], ...] = (
    ("cp.async.bulk.commit_group", "wait"),
    ("cp.async.bulk.wait_group", "wait"),
    ("cp.async.bulk", "bulk copy"),
    ("cp.reduce.async.bulk", "bulk copy"),
    ("cp.async.commit_group", "wait"),
    ("cp.async.wait", "wait"),
    ("cp.async.mbarrier", "barrier"),
    ("cp.async", "async copy"),
    ("ldmatrix", "matrix load"),
    ("stmatrix", "shared store"),
    ("ld.param", "constant load"),
    ("ld.const", "constant load"),
    ("ldu.", "global load"),
    ("wgmma.fence", "wait"),
    ("wgmma.commit", "wait"),
    ("wgmma.wait", "wait"),
    ("tcgen05.mma", "tensor core"),
    ("wmma.load", "matrix load"),
    ("wmma.store", "shared store"),
)
_BY_BASE: Mapping[str, str] = {
    name: group
    for group, names in {
        "atomic": "atom red",
        "tensor core": "mma wgmma wmma",
        "MUFU": "ex2 lg2 sin cos tanh rcp rsqrt sqrt",
        "conversion": "cvt",
        "shuffle": "shfl vote match redux activemask elect",
        "barrier": "bar barrier membar fence mbarrier",
        "wait": "griddepcontrol nanosleep",
        "branch": "bra brx ret exit call trap",
        "move": "mov selp slct prmt cvta movmatrix mapa isspacep",
    }.items()
    for name in names.split()
}
_SPACES = {"shared": "shared", "local": "local", "global": "global"}
_INTEGER = (
    "add addc sub subc mul mul24 mad mad24 sad div rem abs neg min max popc clz bfind fns brev bfe bfi szext bmsk "
    "dp4a dp2a and or xor not cnot lop3 shf shl shr set setp vadd vmad"
)
_FLOAT = "add sub mul fma mad div abs neg min max set setp copysign testp"


def ptx_kind(instruction: Instruction) -> Kind:
    """The group, and the opcode as the name."""
    return _group(instruction.opcode), instruction.opcode


def _group(opcode: str) -> str:
    base, *words = opcode.split(".")
    if group := next((group for start, group in _BY_START if opcode.startswith(start)), None):
        return group
    if base in ("ld", "st"):
        space = next(
            (_SPACES[word.partition("::")[0]] for word in words if word.partition("::")[0] in _SPACES), "global"
        )
        return f"{space} {'load' if base == 'ld' else 'store'}"
    if base in _BY_BASE:
        return _BY_BASE[base]
    kind = next((word for word in reversed(words) if re.fullmatch(r"[a-z]+\d+(x\d)?", word)), "")
    if base in _FLOAT.split() and kind.startswith(("f", "bf")):
        return "FP64" if kind == "f64" else "FP32" if kind.startswith("f32") else "FP16"
    return "integer" if base in _INTEGER.split() else "other"
