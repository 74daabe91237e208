"""Case files: a readable header, then the bytes of the tensors; docs/testing.md has the format, csrc/runner/ reads it.

Pure: from data to bytes and back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from sparkctl.errors import SparkctlError

FORMAT_VERSION = 1
MAGIC = "sparkctl-case"
CASE_SUFFIX, OUTPUT_SUFFIX = ".case", ".out"
ELEMENT_BYTES = {"bf16": 2, "fp16": 2, "f32": 4, "f64": 8, "i32": 4, "u8": 1}
BLOCK_ALIGNMENT = 64  # of blocks in the data, for readers that map the file


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """A tensor as the header has it: strides count elements, `offset` bytes. An output to be made has no block."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    block: int | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class CaseFile:
    """One case. A block is what one allocation holds; tensors are views of it and may share it."""

    case: str
    variant: str
    family: str
    values: Mapping[str, str] = field(default_factory=dict)
    blocks: tuple[bytes, ...] = ()
    inputs: Mapping[str, TensorEntry] = field(default_factory=dict)
    outputs: Mapping[str, TensorEntry] = field(default_factory=dict)
    expected: Mapping[str, TensorEntry] = field(default_factory=dict)


def encode_case(file: CaseFile) -> bytes:
    """The whole file. SparkctlError where a name or value cannot stand in a header."""
    offsets, size = place_blocks(file.blocks)
    names = {"case": file.case, "variant": file.variant, "family": file.family}
    lines = [f"{MAGIC} {FORMAT_VERSION}"]
    lines += [f"{key} = {value}" for key, value in (*names.items(), *file.values.items())]
    lines += [f"block = offset={offset} bytes={len(block)}" for offset, block in zip(offsets, file.blocks, strict=True)]
    for kind, tensors in (("input", file.inputs), ("output", file.outputs), ("expected", file.expected)):
        lines += [f"{kind} = {name} {describe(tensor)}" for name, tensor in tensors.items()]
    for line in lines[1:]:
        if not re.fullmatch(r"[\w.]+ = [\x20-\x7e]+", line):
            raise SparkctlError(f"{line[:80]!r} cannot stand in the header of a case file")
    lines.append(f"data = {size}")
    header = "".join(f"{line}\n" for line in lines).encode("ascii")
    return header + b"".join(padded(block) for block in file.blocks)


def decode_case(data: bytes) -> CaseFile:
    """A case file, or the outputs that the runner wrote. SparkctlError where it is neither."""
    values: dict[str, str] = {}
    blocks: list[tuple[int, int]] = []
    tensors: dict[str, dict[str, TensorEntry]] = {"input": {}, "output": {}, "expected": {}}
    first, *lines = header_lines(data)
    if first != f"{MAGIC} {FORMAT_VERSION}":
        raise SparkctlError(f"no case file of version {FORMAT_VERSION}: it begins with {first[:40]!r}")
    try:
        for key, value in (line.split(" = ", 1) for line in lines):
            if key == "block":
                block = fields_of(value)
                blocks.append((int(block["offset"]), int(block["bytes"])))
            elif key in tensors:
                name, rest = value.split(" ", 1)
                tensors[key][name] = tensor_from(rest)
            else:
                values[key] = value
        size = int(values.pop("data"))
        body = data[len(data) - size :] if size else b""
        if sum(len(line) + 1 for line in (first, *lines)) + size != len(data):
            raise ValueError(f"{len(data)} bytes are not the header and {size} bytes of data")
        case, variant, family = (values.pop(name) for name in ("case", "variant", "family"))
    except (ValueError, KeyError) as error:
        raise SparkctlError(f"the case file is damaged: {error}") from error
    contents = tuple(body[offset : offset + count] for offset, count in blocks)
    kinds = (tensors[kind] for kind in ("input", "output", "expected"))
    return CaseFile(case, variant, family, values, contents, *kinds)


def describe(tensor: TensorEntry) -> str:
    """`dtype=bf16 shape=2,3 strides=3,1`, and where it lies."""
    shape, strides = (",".join(map(str, numbers)) for numbers in (tensor.shape, tensor.strides))
    place = "" if tensor.block is None else f" block={tensor.block} offset={tensor.offset}"
    return f"dtype={tensor.dtype} shape={shape} strides={strides}{place}"


def tensor_from(text: str) -> TensorEntry:
    fields = fields_of(text)
    shape, strides = (tuple(int(n) for n in fields[name].split(",")) for name in ("shape", "strides"))
    block = int(fields["block"]) if "block" in fields else None
    return TensorEntry(fields["dtype"], shape, strides, block, int(fields.get("offset", "0")))


def fields_of(text: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in text.split())


def header_lines(data: bytes) -> Iterator[str]:
    """Up to and with `data = …`."""
    start = 0
    while (end := data.find(b"\n", start)) >= 0:
        line = data[start:end].decode("ascii", errors="replace")
        yield line
        start = end + 1
        if line.startswith("data = "):
            return
    raise SparkctlError("the case file's header does not end")


def place_blocks(blocks: Iterable[bytes]) -> tuple[list[int], int]:
    """Where each block begins, and the size of all."""
    offsets, at = [], 0
    for block in blocks:
        offsets.append(at)
        at += len(padded(block))
    return offsets, at


def padded(block: bytes) -> bytes:
    return block + bytes(-len(block) % BLOCK_ALIGNMENT)
