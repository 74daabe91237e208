"""The format of case files: what is written comes back, and what cannot be read is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkctl.errors import SparkctlError
from sparkctl.testing.case_file import BLOCK_ALIGNMENT, CaseFile, TensorEntry, decode_case, encode_case

FILE = CaseFile(
    case="b1-kv3+0-lse",
    variant="attn_decode_split_kv.bf16.d64",
    family="decode",
    values={"scale_log2": "0.125", "causal": "1"},
    blocks=(b"\x01\x02", b"", bytes(range(256))),
    inputs={"q": TensorEntry("bf16", (1,), (1,), 0), "kv": TensorEntry("i32", (2, 3), (16, 1), 2, 8)},
    outputs={"out": TensorEntry("bf16", (0, 4), (4, 1))},
    expected={"lse": TensorEntry("f64", (0,), (1,), 1)},
)

HEADER = """\
sparkctl-case 1
case = b1-kv3+0-lse
variant = attn_decode_split_kv.bf16.d64
family = decode
scale_log2 = 0.125
causal = 1
block = offset=0 bytes=2
block = offset=64 bytes=0
block = offset=64 bytes=256
input = q dtype=bf16 shape=1 strides=1 block=0 offset=0
input = kv dtype=i32 shape=2,3 strides=16,1 block=2 offset=8
output = out dtype=bf16 shape=0,4 strides=4,1
expected = lse dtype=f64 shape=0 strides=1 block=1 offset=0
data = 320
"""


def test_the_header_is_readable_and_the_bytes_follow_it() -> None:
    data = encode_case(FILE)
    assert data[: len(HEADER)].decode() == HEADER
    assert data[len(HEADER) :] == b"\x01\x02" + bytes(62) + bytes(range(256))


def test_a_file_comes_back_as_it_was() -> None:
    assert decode_case(encode_case(FILE)) == FILE


@given(st.lists(st.binary(max_size=200), max_size=5).map(tuple))
def test_blocks_come_back_whatever_they_hold(blocks: tuple[bytes, ...]) -> None:
    data = encode_case(CaseFile("c", "v", "f", blocks=blocks))
    assert decode_case(data).blocks == blocks
    assert (len(data) - data.index(b"\n", data.index(b"data = ")) - 1) % BLOCK_ALIGNMENT == 0


@pytest.mark.parametrize("text", ["two\nlines", "", "é", "\x00"])
def test_what_no_header_can_hold_is_refused(text: str) -> None:
    with pytest.raises(SparkctlError, match="cannot stand in the header"):
        encode_case(CaseFile("c", "v", "f", values={"note": text}))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "header does not end"),
        (b"sparkctl-case 1\ncase = c\n", "header does not end"),
        (b"sparkctl-case 2\ndata = 0\n", "no case file of version 1"),
        (encode_case(FILE)[:-1], "damaged"),
        (encode_case(FILE) + b"x", "damaged"),
        (b"sparkctl-case 1\nvariant = v\nfamily = f\ndata = 0\n", "damaged: 'case'"),
        (b"sparkctl-case 1\nnonsense\ndata = 0\n", "damaged"),
    ],
)
def test_what_is_no_case_file_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(SparkctlError, match=message):
        decode_case(data)
