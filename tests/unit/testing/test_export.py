"""Cases as case files: the call that the tests make, its references, and the memory around its tensors."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy
import pytest
import torch

from sparkctl.errors import SparkctlError
from sparkctl.registry import Variant, find_project, load_registry, select_variants
from sparkctl.testing.case_file import CaseFile, TensorEntry
from sparkctl.testing.cases import cases_for
from sparkctl.testing.export import ENTRIES, Recorder, export_case, recorder_for, refusal, values_of
from sparkctl.testing.inputs import ABSURD_PAGE, make_decode_inputs
from sparkctl.testing.model import CombineCase, DecodeCase, PrefillCase, StreamCase

REGISTRY = load_registry(find_project(None) / "flags.yaml")
DTYPES = {"bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "i32": torch.int32}


@pytest.fixture(scope="module")
def recorder() -> Recorder:
    return recorder_for(REGISTRY)


def variant(kernel: str) -> Variant:
    """The kernel's first one of head_dim 64."""
    return select_variants(REGISTRY, [kernel], where={"dtype": ["bf16"], "head_dim": ["64"]})[0]


def tensor(file: CaseFile, entry: TensorEntry) -> torch.Tensor:
    assert entry.block is not None
    flat = torch.frombuffer(bytearray(file.blocks[entry.block]), dtype=DTYPES[entry.dtype])
    return flat.as_strided(entry.shape, entry.strides, entry.offset // flat.element_size())


DECODE = DecodeCase((5, 3), num_kv_heads=2, group=2, num_splits=2, causal=True, slack=1)


def test_a_decode_case_holds_its_call(recorder: Recorder) -> None:
    name = variant("attn_decode_split_kv_mma").name
    file = export_case(recorder, variant("attn_decode_split_kv_mma"), DECODE)
    assert (file.case, file.variant, file.family) == (DECODE.id, name, "decode")
    assert file.values == {
        "combine": "attn_combine.bf16.d64",
        "num_splits": "2",
        "scale_log2": f"{numpy.float32(1.4426950408889634 / 8):.9g}",
        "causal": "1",
        "window": "-1",
        "launches": "2",
        "rel_l2": "0.005",
        "lse_error": "0.001",
    }
    assert list(file.inputs) == ["q", "k", "v", "kv_lens"]
    assert {key: entry.shape for key, entry in file.outputs.items()} == {"out": (2, 1, 4, 64), "lse": (2, 1, 4)}
    assert list(file.expected) == ["out", "allowed", "lse"]


def test_inputs_are_those_of_the_test(recorder: Recorder) -> None:
    file = export_case(recorder, variant("attn_decode_split_kv"), DECODE, seed=3)
    inputs = make_decode_inputs(DECODE, "bf16", 64, "cpu", 3)
    for name in ("q", "k", "v", "kv_lens"):
        pair = (tensor(file, file.inputs[name]), getattr(inputs, name))
        stored, made = (values.contiguous().view(torch.int16) for values in pair)
        assert torch.equal(stored, made), name


def test_the_allowed_error_of_a_row_without_keys_is_zero(recorder: Recorder) -> None:
    file = export_case(recorder, variant("attn_decode_split_kv"), replace(DECODE, kv_lens=(0, 3)))
    allowed = tensor(file, file.expected["allowed"])
    assert (allowed[0] == 0).all()
    assert (allowed[1] > 0).all()
    assert (tensor(file, file.expected["lse"])[0] == -math.inf).all()


def test_tensors_that_share_memory_share_their_block_and_keep_what_lies_between(recorder: Recorder) -> None:
    file = export_case(recorder, variant("attn_decode_split_kv"), replace(DECODE, layout="fused", slack=0))
    k, v = file.inputs["k"], file.inputs["v"]
    assert k.block == v.block
    assert v.offset - k.offset == 2 * 64 * 2
    padded = export_case(recorder, variant("attn_decode_split_kv"), replace(DECODE, layout="padded", slack=0))
    entry = padded.inputs["k"]
    assert entry.block is not None
    assert torch.frombuffer(bytearray(padded.blocks[entry.block]), dtype=torch.bfloat16).isnan().any()
    assert not tensor(padded, entry)[0].isnan().any()


def test_absurd_pages_past_the_table_are_kept(recorder: Recorder) -> None:
    case = replace(DECODE, page_size=2)
    file = export_case(recorder, variant("attn_paged_decode_split_kv"), case)
    table = file.inputs["page_table"]
    assert file.family == "paged_decode"
    assert table.strides == (case.max_pages + 5, 1)
    assert table.block is not None
    stored = torch.frombuffer(bytearray(file.blocks[table.block]), dtype=torch.int32)
    assert (stored.view(2, -1)[:, case.max_pages :] == ABSURD_PAGE).all()


def test_without_lse_none_is_asked_for(recorder: Recorder) -> None:
    file = export_case(recorder, variant("attn_decode_split_kv"), replace(DECODE, return_lse=False))
    assert list(file.outputs) == ["out"]
    assert list(file.expected) == ["out", "allowed"]


def test_planned_splits_are_written_as_a_number(recorder: Recorder) -> None:
    case = replace(DECODE, kv_lens=(600, 3), num_splits=None)
    assert int(export_case(recorder, variant("attn_decode_split_kv_mma"), case).values["num_splits"]) > 1


def test_options_are_formed_as_the_binding_forms_them(recorder: Recorder) -> None:
    arguments = dict.fromkeys(ENTRIES["decode"].arguments)
    arguments |= {"combine": 0, "part_max": torch.zeros(1, 1, 1, 3), "scale": 0.5, "causal": False}
    arguments |= {"window": 2**40, "softcap": 30.0}
    values = values_of(recorder, "decode", arguments)
    assert values["softcap"] == "60"
    assert numpy.float32(values["softcap_scale"]) == numpy.float32(2.0 * 1.4426950408889634 * 0.5 / 30.0)
    assert values["window"] == str((2**31 - 1) // 2)


def test_a_combine_case_holds_the_partials(recorder: Recorder) -> None:
    file = export_case(recorder, variant("attn_combine"), CombineCase(2, 1, 3, 4, "empty_last"))
    assert list(file.inputs) == ["part_acc", "part_max", "part_sum"]
    assert file.values["launches"] == "1"
    assert tensor(file, file.inputs["part_acc"]).isnan().any()


def test_a_stream_case_holds_its_checksum(recorder: Recorder) -> None:
    stream = select_variants(REGISTRY, ["stream_read.u2"])[0]
    file = export_case(recorder, stream, StreamCase(48, 3))
    words = tensor(file, file.inputs["data"]).numpy()
    assert tensor(file, file.expected["checksum"]).item() == numpy.bitwise_xor.reduce(words)
    assert file.outputs["checksum"].shape == (3,)


@pytest.mark.parametrize(
    ("kernel", "case"),
    [
        ("attn_decode_split_kv", DecodeCase((3,), layout="huge_len")),
        ("attn_prefill_split_q", PrefillCase((2,), (3,), layout="huge_len")),
    ],
)
def test_cases_of_huge_strides_are_refused(recorder: Recorder, kernel: str, case: DecodeCase | PrefillCase) -> None:
    assert refusal(case) == "its tensors span more than 2^31 elements"
    with pytest.raises(SparkctlError, match=r"cannot be exported: its tensors span more than 2\^31 elements"):
        export_case(recorder, variant(kernel), case)


def test_a_packed_prefill_case_holds_its_call_and_references_of_its_shape(recorder: Recorder) -> None:
    case = PrefillCase((3, 0, 20), (9, 4, 37), group=3, packed_q=True, packed_kv=True, mask="rank4_heads", sinks=True)
    file = export_case(recorder, variant("attn_prefill_split_q_mma"), case)
    assert file.family == "prefill"
    assert list(file.inputs) == ["q", "k", "v", "qo_indptr", "kv_indptr", "mask", "sinks"]
    assert tensor(file, file.inputs["qo_indptr"]).tolist() == [0, 3, 3, 23]
    assert (file.values["max_qo_len"], file.values["launches"]) == ("20", "1")
    assert "num_splits" not in file.values and "combine" not in file.values
    assert {key: entry.shape for key, entry in file.outputs.items()} == {"out": (23, 3, 64), "lse": (23, 3)}
    shapes = {key: entry.shape for key, entry in file.expected.items()}
    assert shapes == {"out": (23, 3, 64), "allowed": (23, 3), "lse": (23, 3)}


def test_a_padded_prefill_case_says_no_longest_length(recorder: Recorder) -> None:
    case = PrefillCase((5, 5), (9, 4), slack=1, page_size=4)
    paged = select_variants(REGISTRY, ["attn_prefill_split_q_mma.bf16.d64.p1"])[0]
    file = export_case(recorder, paged, case)
    assert list(file.inputs) == ["q", "k", "v", "page_table", "kv_lens"]
    assert "max_qo_len" not in file.values
    assert file.outputs["out"].shape == file.expected["out"].shape == (2, 5, 1, 64)


@pytest.mark.parametrize("kernel", [name for name in REGISTRY.kernels if name != "stream_read"])
def test_every_kernel_with_cases_can_be_exported(recorder: Recorder, kernel: str) -> None:
    chosen = variant(kernel)
    case = cases_for(chosen)[0]
    assert export_case(recorder, chosen, case).case == case.id
