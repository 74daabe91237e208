"""The standalone runner, as it stands after a build: case files in, verdicts out, without Python or torch."""

# ruff: noqa: E501 - headers are as wide as they are

from __future__ import annotations

import os
import random
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from programs import FLAGS, INCLUDES, KERNELS
from runner_calls import RECORDER, REGISTRY, Run, changed, exported, runner_call, variant, write

from sparkctl.arch import parse_arch
from sparkctl.build import RUNNER_NAME, ensure_built
from sparkctl.runtime import load_library
from sparkctl.testing.case_file import CaseFile, TensorEntry, decode_case, encode_case
from sparkctl.testing.cases import cases_for
from sparkctl.testing.export import refusal
from sparkctl.testing.model import CombineCase, DecodeCase, MergeCase, PrefillCase, StreamCase
from sparkctl.testing.prepare import Target, prepare_decode
from sparkctl.testing.results import Selection
from sparkctl.testing.standalone import StandaloneTarget, run_standalone
from sparkctl.testing.suite import run_variant

NAMES = (
    "attn_decode_split_kv.bf16.d64",
    "attn_decode_split_kv_mma.bf16.d64",
    "attn_paged_decode_split_kv_mma.bf16.d64",
    "attn_combine.bf16.d64",
    "stream_read.u2",
    "attn_merge_states.bf16.d64",
    "attn_prefill_split_q.bf16.d64",
    "attn_prefill_split_q_mma.bf16.d64",
    "attn_prefill_split_q_mma.bf16.d64.p1",
)
DECODE = DecodeCase((37, 5), num_kv_heads=2, group=2, num_splits=2, causal=True, slack=3)
PREFILL = PrefillCase((20, 20), (37, 5), num_kv_heads=2, group=2, causal=True, slack=3)
PACKED = PrefillCase((3, 0, 20), (9, 4, 37), group=3, packed_q=True, packed_kv=True, causal=True)
CASES = {
    NAMES[0]: (replace(DECODE, layout="padded"), replace(DECODE, kv_lens=(0, 3))),
    NAMES[1]: (DECODE, replace(DECODE, layout="fused", qo_len=3), replace(DECODE, layout="heads_first")),
    NAMES[2]: (replace(DECODE, page_size=8), replace(DECODE, page_size=24, layout="mixed", return_lse=False)),
    NAMES[3]: (CombineCase(2, 1, 3, 4, "empty_first"), CombineCase(1, 2, 2, 3, "all_empty", padded_out=True)),
    NAMES[4]: (StreamCase(0), StreamCase(4112, 3)),
    NAMES[5]: (MergeCase(2, 1, 3, 4), MergeCase(1, 2, 2, 3, layout="padded")),
    NAMES[6]: (PREFILL, replace(PACKED, layout="padded"), replace(PREFILL, slack=None, kv_lens=(37, 37))),
    NAMES[7]: (
        replace(PREFILL, layout="heads_first", window=7, softcap=2.0, mask="rank4", sinks=True),
        replace(PACKED, layout="mixed", mask="rank4_heads", return_lse=False),
        replace(PACKED, qo_lens=(0, 0, 0)),
        replace(PREFILL, packed_q=True, qo_lens=(7, 20)),
        replace(PREFILL, packed_kv=True, slack=None),
    ),
    NAMES[8]: (
        replace(PREFILL, page_size=8, layout="fused"),
        replace(PACKED, packed_kv=False, page_size=24, slack=1, window=3),
    ),
}


@pytest.fixture(scope="module")
def folder() -> Path:
    variants = [variant(name) for name in NAMES]
    return ensure_built(REGISTRY, variants, arch=parse_arch("sm_90"), backend="emulator", runner=True)


@pytest.fixture
def run(folder: Path, tmp_path: Path) -> Run:
    """Runs the runner in an environment in which no Python and no torch can be found."""
    return runner_call(folder / RUNNER_NAME, tmp_path)


def test_cases_of_every_family_pass(run: Run, tmp_path: Path) -> None:
    files = [exported(name, case) for name, cases in CASES.items() for case in cases]
    done = run(write(tmp_path / "cases", *files))
    assert (done.code, done.err) == (0, [])
    assert done.out[-1] == f"{len(files)} cases, 0 failed"
    shown = {tuple(line.split()[2:]) for line in done.out[:-1]}
    assert shown == {(file.variant, file.case) for file in files}
    assert all(line.startswith("pass 0") for line in done.out[:-1])


def test_no_family_of_the_registry_is_left_out() -> None:
    exportable = {kernel.family for kernel in REGISTRY.kernels.values()}
    assert {exported(name, cases[0]).family for name, cases in CASES.items()} == exportable


def test_it_needs_neither_python_nor_torch_nor_tvm_ffi(folder: Path) -> None:
    linked = subprocess.run(["ldd", folder / RUNNER_NAME], capture_output=True, text=True, check=True).stdout
    names = {line.split()[0].split("/")[-1].split(".")[0] for line in linked.splitlines()}
    assert names <= {"linux-vdso", "libstdc++", "libm", "libgcc_s", "libc", "ld-linux-x86-64", "ld-linux-aarch64"}


@pytest.mark.parametrize("name", [NAMES[1], NAMES[3], NAMES[7], NAMES[8]])
def test_its_errors_are_those_of_the_tests_in_python(folder: Path, name: str) -> None:
    """The tolerance rule is the same: each case has the same share of what is allowed, to the four digits shown."""
    cases = [case for case in cases_for(variant(name)) if refusal(case) is None][::7]
    shares: dict[str, dict[str, float]] = {"library": {}, "runner": {}}
    selection = Selection(variant(name), tuple(cases))
    own = run_variant(
        Target(load_library(folder), "cpu"),
        selection,
        lambda case, outcome: shares["library"].update({case.id: outcome.worst}),
    )
    alone = run_standalone(
        StandaloneTarget(RECORDER, folder / RUNNER_NAME),
        selection,
        lambda case, outcome: shares["runner"].update({case.id: outcome.worst}),
    )
    assert (own.failures, alone.failures) == ((), ())
    assert own.case_ids == alone.case_ids
    assert own.launches == alone.launches > 0
    assert any(share > 0.2 for share in shares["library"].values())
    assert shares["runner"] == pytest.approx(shares["library"], rel=1e-3)


def array(file: CaseFile, entry: TensorEntry) -> np.ndarray:
    """A contiguous tensor of a file in fp64."""
    assert entry.block is not None
    raw = np.frombuffer(file.blocks[entry.block], dtype={"bf16": "<u2", "f32": "<f4", "f64": "<f8"}[entry.dtype])
    values = (raw.astype("<u4") << 16).view("<f4") if entry.dtype == "bf16" else raw
    return values.astype(np.float64).reshape(entry.shape)


@pytest.mark.parametrize("rule", ["error", "relative L2 error", "lse error"])
def test_each_rule_is_told_where_its_limit_is_the_tightest(run: Run, tmp_path: Path, rule: str) -> None:
    file = exported(NAMES[3], CombineCase(2, 1, 3, 4))
    if rule == "error":
        index = file.expected["allowed"].block
        assert index is not None
        tight = (array(file, file.expected["allowed"]) / 1000).tobytes()
        file = replace(file, blocks=(*file.blocks[:index], tight, *file.blocks[index + 1 :]))
    else:
        name = {"relative L2 error": "rel_l2", "lse error": "lse_error"}[rule]
        file = replace(file, values={**file.values, name: "1e-9"})
    done = run("--write", tmp_path / "outputs", write(tmp_path / "cases", file))
    assert done.code == 1
    result = decode_case((tmp_path / "outputs" / file.variant / f"{file.case}.out").read_bytes())
    errors = {
        name: np.abs(array(result, result.outputs[name]) - array(file, file.expected[name])) for name in ("out", "lse")
    }
    norms = np.sqrt((array(file, file.expected["out"]) ** 2).sum(-1))
    shares = {
        "error": (errors["out"].max(-1) / array(file, file.expected["allowed"])).max(),
        "relative L2 error": (np.sqrt((errors["out"] ** 2).sum(-1)) / norms).max() / float(file.values["rel_l2"]),
        "lse error": errors["lse"].max() / float(file.values["lse_error"]),
    }
    assert max(shares, key=shares.__getitem__) == rule
    assert float(done.out[0].split()[1]) == pytest.approx(shares[rule], rel=1e-3)
    assert f"; {rule} " in done.out[0]


def test_outputs_are_written_bit_for_bit(run: Run, folder: Path, tmp_path: Path) -> None:
    """The same bits as through the library and Python."""
    case = replace(DECODE, layout="padded")
    done = run("--write", tmp_path / "outputs", write(tmp_path / "cases", exported(NAMES[1], case)))
    assert done.code == 0
    file = decode_case((tmp_path / "outputs" / NAMES[1] / f"{case.id}.out").read_bytes())
    outputs = prepare_decode(Target(load_library(folder), "cpu"), variant(NAMES[1]), case).call()
    assert outputs.lse is not None
    assert list(file.outputs) == ["part_acc", "part_max", "part_sum", "out", "lse"]
    for name, guarded in (("out", outputs.out), ("lse", outputs.lse)):
        entry = file.outputs[name]
        assert entry.block is not None and entry.shape == tuple(guarded.view.shape)
        assert file.blocks[entry.block] == guarded.view.contiguous().view(torch.uint8).numpy().tobytes()


def test_a_wrong_expected_value_fails_at_its_place(run: Run, tmp_path: Path) -> None:
    file = exported(NAMES[1], DECODE)
    wrong = changed(file, file.expected["out"], (1, 0, 2, 17), 9.5)
    done = run(write(tmp_path / "cases", wrong))
    assert done.code == 1
    assert done.out[0].startswith("FAIL ")
    assert f" {NAMES[1]} {file.case}: out at batch 1, qo 0, head 2, dim 17: got " in done.out[0]
    assert ", expected 9.5; " in done.out[0]
    assert done.out[1] == "1 cases, 1 failed"


def test_a_wrong_lse_fails_at_its_place(run: Run, tmp_path: Path) -> None:
    file = exported(NAMES[3], CASES[NAMES[3]][0])
    done = run(write(tmp_path / "cases", changed(file, file.expected["lse"], (1, 0, 2), 3.25)))
    assert done.code == 1
    assert f"{file.case}: lse at batch 1, qo 0, head 2: got " in done.out[0]
    assert ", expected 3.25; lse error " in done.out[0]
    assert done.out[0].endswith(", allowed 0.001")


def test_a_row_that_must_be_zero_may_not_be_off_at_all(run: Run, tmp_path: Path) -> None:
    file = exported(NAMES[0], replace(DECODE, kv_lens=(0, 3)))
    done = run(write(tmp_path / "cases", changed(file, file.expected["out"], (0, 0, 1, 3), 1e-30)))
    assert done.code == 1
    assert done.out[0].startswith("FAIL inf ")
    assert "batch 0, qo 0, head 1, dim 3: got 0, expected 1e-30" in done.out[0]


def test_an_altered_input_fails(run: Run, tmp_path: Path) -> None:
    file = exported(NAMES[2], replace(DECODE, page_size=8))
    lens = changed(file, file.inputs["kv_lens"], (0,), 36)
    value = changed(file, file.inputs["q"], (1, 0, 3, 5), 0x4200)  # 32.0
    for altered, batch in ((lens, 0), (value, 1)):
        done = run(write(tmp_path / "cases", altered))
        assert done.code == 1
        assert f": out at batch {batch}, " in done.out[0] or f": lse at batch {batch}, " in done.out[0]


OPTIONS = {
    NAMES[1]: replace(DECODE, window=11, softcap=2.0, mask="rank4", sinks=True),
    NAMES[7]: replace(PREFILL, window=11, softcap=2.0, mask="rank4", sinks=True),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_reaches_the_kernel(run: Run, tmp_path: Path, name: str) -> None:
    """With one of them changed or left out the outputs are others."""
    file = exported(name, OPTIONS[name])
    assert run(write(tmp_path / "cases", file)).code == 0
    values = dict(file.values)
    uncapped = {name: value for name, value in values.items() if not name.startswith("softcap")}
    others = [{**values, "window": "5"}, {**values, "causal": "0", "window": "-1"}, {**values, "scale_log2": "0.3"}]
    changed_files = [replace(file, values=other) for other in (*others, uncapped)]
    for name in ("mask", "sinks"):
        inputs = {key: entry for key, entry in file.inputs.items() if key != name}
        assert len(inputs) == len(file.inputs) - 1
        changed_files.append(replace(file, inputs=inputs))
    for other in changed_files:
        done = run(write(tmp_path / "cases", other))
        assert (done.code, done.out[-1]) == (1, "1 cases, 1 failed"), (other.values, done)


def test_a_nan_that_is_read_fails(run: Run, tmp_path: Path) -> None:
    file = exported(NAMES[0], DECODE)
    done = run(write(tmp_path / "cases", changed(file, file.inputs["v"], (1, 2, 0, 0), 0xFFC0)))
    assert done.code == 1
    assert "got nan, expected " in done.out[0]


def test_a_checksum_is_compared(run: Run, tmp_path: Path) -> None:
    file = exported(NAMES[4], StreamCase(4112, 3))
    done = run(write(tmp_path / "cases", changed(file, file.inputs["data"], (7,), 1)))
    assert done.code == 1
    assert f"FAIL inf {NAMES[4]} {file.case}: checksum: got 0x" in done.out[0]


def test_the_variants_are_listed(run: Run) -> None:
    done = run("--list")
    assert done.code == 0
    assert set(NAMES) <= {line.split()[0] for line in done.out}
    assert "attn_combine.bf16.d64 family=combine threads=128 dynamic_smem=0" in done.out


@pytest.mark.parametrize("words", [("--schedule", "random"), ("--async-mode=early", "--seed", "7"), ("--repeat", "3")])
def test_every_order_and_every_repetition_passes(run: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    done = run(*words, write(tmp_path / "cases", exported(NAMES[1], DECODE)))
    assert (done.code, done.out[-1]) == (0, "1 cases, 0 failed")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "no case file is given; --help shows how"),
        (("--quick",), "unknown option '--quick'"),
        (("--schedule", "slow", "x"), "--schedule is 'slow', accepted are ascending, descending and random"),
        (("--seed", "-1", "x"), "--seed is '-1', accepted is 0 to 18446744073709551615"),
        (("--repeat", "0", "x"), "--repeat is '0', accepted is 1 to 1000000"),
        (("--write",), "--write needs a value"),
        (("--write", "", "x"), "--write names no folder"),
        (("x.case",), "x.case: it cannot be read: No such file or directory"),
        (("empty",), "empty holds no .case file"),
    ],
)
def test_a_wrong_call_is_one_error(run: Run, tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    (tmp_path / "empty").mkdir()
    done = run(*words)
    assert (done.code, done.err) == (2, [f"error: {message}"])


HEADERS: Mapping[str, tuple[str, str, str]] = {
    "another version": ("sparkctl-case 1", "sparkctl-case 2", "the format's version is 2, accepted is 1"),
    "no case file": ("sparkctl-case 1", "sparkctl", "this is no case file: it does not begin with 'sparkctl-case '"),
    "an unknown variant": (NAMES[1], "attn_x.bf16.d64", "holds no variant 'attn_x.bf16.d64'; --list shows"),
    "another family": ("family = decode", "family = paged_decode", "is of family decode, the file says paged_decode"),
    "an unknown family": ("family = decode", "family = x", "cannot call family 'x'"),
    "a variant that leads away": (f"variant = {NAMES[1]}", "variant = ../../x", "accepted are letters, digits"),
    "no variant": (f"variant = {NAMES[1]}\n", "", "the header has no variant"),
    "an unknown value": ("causal = 1", "causal = 1\nalibi = 1", "family decode knows no value 'alibi'"),
    "a value twice": ("causal = 1", "causal = 1\ncausal = 0", "the header has 'causal' twice"),
    "a value out of range": ("causal = 1", "causal = 7", "causal is '7', accepted is 0 to 1"),
    "no number": ("num_splits = 2", "num_splits = two", "num_splits is 'two', accepted is 1 to 65535"),
    "too many splits": ("num_splits = 2", "num_splits = 99999999999999999999", "accepted is 1 to 65535"),
    "another combine": ("combine = attn_combine", "combine = attn_decode_split_kv_mma", "of family decode, accepted"),
    "an absurd offset": ("block=0 offset=0", "block=0 offset=99999999999", "from offset 99999999999 on, its block has"),
    "an offset past 64 bits": ("block=0 offset=0", "block=0 offset=99999999999999999999", "accepted is a whole number"),
    "a negative offset": ("block=0 offset=0", "block=0 offset=-64", "offset is '-64', accepted is a whole number"),
    "a missing block": ("block=0 offset=0", "block=77 offset=0", "is in block 77, the file has"),
    "a misaligned offset": ("block=0 offset=0", "block=0 offset=1", "needs "),
    "a block outside": ("block = offset=0 bytes=", "block = offset=64000000 bytes=", "at offset 64000000, the file has"),
    "an unknown dtype": ("input = q dtype=bf16", "input = q dtype=fp8", "has dtype 'fp8', accepted are bf16"),
    "another dtype": ("input = q dtype=bf16", "input = q dtype=i32", ""),
    "a large shape": ("shape=2,1,4,64", "shape=2,1,4,6400000000", ""),
    "a shape past 64 bits": ("shape=2,1,4,64", "shape=3037000500,3037000500,3037000500,64", "too large for any memory"),
    "another rank": ("input = q dtype=bf16 shape=2,1,4,64", "input = q dtype=bf16 shape=2,1,256", "3 sizes and 4 strides"),
    "another batch": ("input = kv_lens dtype=i32 shape=2", "input = kv_lens dtype=i32 shape=1", "has shape [1]"),
    "no such input": ("input = k ", "input = z ", "family decode needs an input 'k'"),
    "an unknown input": ("input = kv_lens ", "input = lens ", "family decode knows no input 'lens'"),
    "an input twice": ("input = k ", "input = q ", "input 'q' is there twice"),
    "no lse expected": ("expected = lse ", "expected = x ", "the file has no expected 'lse'"),
    "an expected of another shape": ("expected = out dtype=f64 shape=2,1,4,64", "expected = out dtype=f64 shape=2,1,4,32", "expected 'out' is not f64"),
    "no line": ("causal = 1", "causal", "the header's line 'causal' is not 'key = value'"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(HEADERS))
def test_a_wrong_file_is_one_error_that_names_it(run: Run, tmp_path: Path, name: str) -> None:
    old, new, message = HEADERS[name]
    data = encode_case(exported(NAMES[1], DECODE))
    assert data.count(old.encode()) >= 1
    (tmp_path / "bad.case").write_bytes(data.replace(old.encode(), new.encode(), 1))
    done = run("bad.case")
    assert (done.code, len(done.err)) == (2, 1), done
    assert done.err[0].startswith("error: bad.case: ")
    assert message in done.err[0]
    assert done.out == ["0 cases, 0 failed, 1 files could not be used"]


@pytest.mark.parametrize(
    ("tensor", "position", "value", "message"),
    [
        ("kv_lens", (1,), 41, "kv_lens[1] is 41, accepted is 0 to 40"),
        ("kv_lens", (0,), -1, "kv_lens[0] is -1, accepted is 0 to 40"),
        ("page_table", (0, 2), 2**30, "page_table[0, 2] is 1073741824, accepted is 0 to "),
        ("page_table", (1, 0), -5, "page_table[1, 0] is -5, accepted is 0 to "),
    ],
)
def test_lengths_and_pages_that_lead_outside_are_refused(
    run: Run, tmp_path: Path, tensor: str, position: tuple[int, ...], value: int, message: str
) -> None:
    file = exported(NAMES[2], replace(DECODE, page_size=8, slack=0))
    done = run(write(tmp_path / "cases", changed(file, file.inputs[tensor], position, value)))
    assert done.code == 2
    assert message in done.err[0]


PACKED_MASK = replace(PACKED, mask="rank4_heads")
# A change of a tensor or of the header of a packed prefill, and what the runner says.
WRONG_PACKINGS: Mapping[str, tuple[tuple[str, tuple[int, ...], int] | tuple[str, str], str]] = {
    "a start": (("qo_indptr", (0,), 1), "qo_indptr goes from 1 to 23, accepted is from 0 to 23, the packed rows"),
    "an end": (("kv_indptr", (3,), 51), "kv_indptr goes from 0 to 51, accepted is from 0 to 50, the packed rows"),
    "a fall": (("kv_indptr", (1,), 14), "kv_indptr[2] is 13, accepted is 14 or more: it must not fall"),
    "a long one": (("max_qo_len = 20", "max_qo_len = 19"), "max_qo_len is '19', accepted is 20 to 2147483647"),
    "a narrow mask": (("kv_indptr", (2,), 9), "mask has a last size of 37, accepted is 41 or more, the longest sequence of k"),
    "another batch": (("input = kv_indptr dtype=i32 shape=4", "input = kv_indptr dtype=i32 shape=3"), "'kv_indptr' has shape [3], accepted is [4]"),
    "no sequence": (("input = qo_indptr dtype=i32 shape=4", "input = qo_indptr dtype=i32 shape=0"), "'qo_indptr' has shape [0], accepted is [batch + 1]"),
    "no length": (("max_qo_len = 20\n", ""), "the header has no max_qo_len"),
    "padded queries": (("input = qo_indptr ", "input = other "), "input 'q' has shape [23, 3, 64], accepted is [any, any, any, any]"),
    "lengths too": (("input = kv_indptr ", "input = kv_lens "), "input 'k' has shape [50, 1, 64], accepted is [3, any, any, 64]"),
    "an unknown input": (("input = mask ", "input = page "), "family prefill knows no input 'page'"),
    "a table too": (("input = mask ", "input = page_table "), "input 'k' has shape [50, 1, 64], accepted is [any, any, any, 64]"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(WRONG_PACKINGS))
def test_a_wrong_packing_is_one_error_that_names_it(run: Run, tmp_path: Path, name: str) -> None:
    change, message = WRONG_PACKINGS[name]
    file = exported(NAMES[7], PACKED_MASK)
    if len(change) == 3:
        tensor, position, value = change
        data = encode_case(changed(file, file.inputs[tensor], position, value))
    else:
        data = encode_case(file)
        assert data.count(change[0].encode()) == 1
        data = data.replace(change[0].encode(), change[1].encode())
    (tmp_path / "bad.case").write_bytes(data)
    done = run("bad.case")
    assert (done.code, len(done.err)) == (2, 1), done
    assert message in done.err[0]


def test_pages_that_only_a_longer_query_sees_may_be_absurd(run: Run, tmp_path: Path) -> None:
    """Each packed sequence's own queries say where its window begins."""
    case = PrefillCase((1, 40), (40, 40), packed_q=True, page_size=8, slack=0, window=3)
    file = exported(NAMES[8], case)
    assert run(write(tmp_path / "cases", file)).code == 0
    for batch, entry, code in ((0, 3, 0), (0, 4, 2), (1, 0, 2)):
        done = run(write(tmp_path / "cases", changed(file, file.inputs["page_table"], (batch, entry), 2**30)))
        assert done.code == code, (batch, entry, done)


def test_a_call_without_queries_launches_nothing(run: Run, tmp_path: Path) -> None:
    file = exported(NAMES[7], replace(PACKED, qo_lens=(0, 0, 0)))
    assert file.values["launches"] == "0"
    done = run(write(tmp_path / "cases", replace(file, values={**file.values, "launches": "1"})))
    assert done.code == 1
    assert "the emulator ran 0 kernels, 1 were expected" in done.out[0]
    done = run(write(tmp_path / "cases", replace(file, values={**file.values, "alibi": "1"})))
    assert (done.code, done.err[0].split(": ")[-1]) == (2, "family prefill knows no value 'alibi'")


def not_regular(folder: Path) -> dict[str, Path]:
    """Paths by what the runner calls them."""
    os.mkfifo(folder / "pipe.case")
    (folder / "folder.case").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "socket.case"))
    (folder / "device.case").symlink_to("/dev/zero")
    return {name: folder / f"{file}.case" for name, file in (
        ("a FIFO", "pipe"), ("a folder", "folder"), ("a socket", "socket"), ("a device", "device")
    )}  # fmt: skip


def test_what_is_no_regular_file_is_refused_at_once(run: Run, tmp_path: Path) -> None:
    """Neither waited for nor read without an end, named on the command line or found in a folder."""
    paths = not_regular(tmp_path)
    folder = paths.pop("a folder")
    started = time.monotonic()
    for kind, path in (*paths.items(), ("a device", Path("/dev/zero")), ("a device", Path("/dev/null"))):
        done = run(path)
        assert (done.code, done.err) == (2, [f"error: {path}: it is {kind}, accepted is a regular file"])
        assert done.out == ["0 cases, 0 failed, 1 files could not be used"]
    assert run(folder).err == [f"error: {folder} holds no .case file"]
    write(tmp_path, exported(NAMES[3], CASES[NAMES[3]][0]))
    done = run(tmp_path)
    assert (done.code, done.out[-1]) == (2, "1 cases, 0 failed, 4 files could not be used")
    assert f"error: {folder}: it is a folder, accepted is a regular file" in done.err
    assert time.monotonic() - started < 20


def test_the_size_is_held_against_the_header_before_the_data_are_read(run: Run, tmp_path: Path) -> None:
    for name, start in (("foreign", b""), ("longer", encode_case(exported(NAMES[4], StreamCase(64))))):
        with (tmp_path / f"{name}.case").open("wb") as stream:
            stream.write(start)
            stream.truncate(1 << 40)
    assert run("foreign.case").err == [
        "error: foreign.case: this is no case file: it does not begin with 'sparkctl-case '"
    ]
    (said,) = run("longer.case").err
    assert said.endswith(": the file is cut off or damaged")


def test_a_good_file_among_wrong_ones_still_runs(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "cases", exported(NAMES[1], DECODE))
    (tmp_path / "cases" / "a.case").write_text("nothing")
    done = run("cases")
    assert done.code == 2
    assert done.out[-1] == "1 cases, 0 failed, 1 files could not be used"


def test_no_damage_makes_it_crash(run: Run, tmp_path: Path) -> None:
    """Files cut off everywhere in the header and behind it, and headers with bytes replaced."""
    data = encode_case(exported(NAMES[1], replace(DECODE, kv_lens=(3, 2), slack=0)))
    header = data.index(b"\n", data.index(b"\ndata = ") + 1) + 1
    damaged = [data[:cut] for cut in (*range(0, header, 5), *range(header, len(data), 997), len(data) - 1)]
    choices = random.Random(1)
    for _ in range(400):
        copy = bytearray(data)
        copy[choices.randrange(header)] = choices.choice(b"0123456789=, \n-xq\x00\xff")
        damaged.append(bytes(copy))
    for number, content in enumerate(damaged):
        (tmp_path / f"{number:04}.case").write_bytes(content)
    done = run(tmp_path)
    assert done.code == 2, done.err[-3:]
    cut = sum(len(content) != len(data) for content in damaged)
    assert len(done.err) >= cut > 200
    assert len(done.err) + len(done.out) - 1 == len(damaged)


@pytest.fixture(scope="module")
def faulty(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runner whose variants each go wrong in their own way."""
    program = tmp_path_factory.mktemp("faulty") / "runner"
    objects = [*folder.glob("obj/runner/*.o"), *folder.glob("obj/emulator/*.o")]
    command = ["g++", *FLAGS, *INCLUDES, "-x", "c++", str(KERNELS / "outcomes.cu"), "-x", "none", *map(str, objects)]
    done = subprocess.run([*command, "-pthread", "-o", str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program


FAULTS = {
    "good": "",
    "before": "1 elements were written outside of checksum, the first at element -2 of 0 to 2",
    "behind": "2 elements were written outside of checksum, the first at element 3 of 0 to 2",
    "racy": "run 2 gave other bits than the first",
    "large_block": "block (2048,1,1) is not possible",
    "no_launch": "the emulator ran 0 kernels, 1 were expected: the output is not the kernel's",
}


@pytest.mark.parametrize("fault", list(FAULTS))
def test_each_fault_of_a_kernel_is_found(faulty: Path, tmp_path: Path, fault: str) -> None:
    file = replace(exported(NAMES[4], StreamCase(64, 3)), variant=f"outcome.{fault}")
    done = runner_call(faulty, tmp_path)("--repeat", "2", write(tmp_path / "cases", file))
    assert done.err == []
    assert done.code == (1 if FAULTS[fault] else 0)
    assert FAULTS[fault] in done.out[0]


def settings_seen(faulty: Path, folder: Path, file: CaseFile, schedule: str, mode: str) -> np.ndarray:
    """The words that outcome.ordered leaves; on one worker, since blocks of several end in any order."""
    words = (
        "--schedule",
        schedule,
        "--async-mode",
        mode,
        "--seed",
        "3",
        "--write",
        folder / "outputs",
        folder / "cases",
    )
    environ = {"SPARKCTL_EMULATOR_THREADS": "1"}
    subprocess.run([faulty, *words], env=environ, capture_output=True, timeout=120, check=False)
    result = decode_case((folder / "outputs" / file.variant / f"{file.case}.out").read_bytes())
    return np.frombuffer(result.blocks[0], dtype="<u4")


def test_every_schedule_and_every_arrival_of_copies_reaches_the_kernel(faulty: Path, tmp_path: Path) -> None:
    """Else equal bits under all of them, which tests/emulator/test_equal_bits.py asks for, would say nothing."""
    file = replace(exported(NAMES[4], StreamCase(1024, 66)), variant="outcome.ordered")
    write(tmp_path / "cases", file)
    copied = np.frombuffer(file.blocks[0][:1024], dtype="<u4")[::4]
    for schedule, mode in product(("ascending", "descending", "random"), ("late", "early", "random")):
        thread, block, *read = settings_seen(faulty, tmp_path, file, schedule, mode)
        last = {"ascending": (63, 4), "descending": (0, 0)}
        assert (thread, block) == last[schedule] if schedule in last else thread not in (0, 63), (schedule, mode)
        landed = (read == copied).sum()
        assert landed == {"late": 0, "early": 64}[mode] if mode != "random" else 10 < landed < 54, (schedule, mode)


def test_a_runner_that_dies_fails_that_case_and_the_others_still_run(folder: Path, tmp_path: Path) -> None:
    script = tmp_path / "dies"
    script.write_text(f'#!/bin/sh\nfor file; do\n  grep -qa "case = bytes48" "$file" && kill -SEGV $$\n'
                      f'  {folder.resolve() / RUNNER_NAME} "$file" | grep -v failed\ndone\n')  # fmt: skip
    script.chmod(0o755)
    cases = (StreamCase(16), StreamCase(48), StreamCase(64))
    result = run_standalone(StandaloneTarget(RECORDER, script), Selection(variant(NAMES[4]), cases))
    assert result.case_ids == tuple(case.id for case in cases)
    assert [failure.case_id for failure in result.failures] == [cases[1].id]
    assert result.failures[0].message == "the runner ended: killed by signal 11"


def test_the_environment_holds_what_the_options_do_not_say(folder: Path, tmp_path: Path) -> None:
    """SPARKCTL_EMULATOR_SHARED_LIMIT is not among it: the arch's own limit holds."""
    write(tmp_path / "cases", exported(NAMES[1], DECODE))
    environ = {**os.environ, "SPARKCTL_EMULATOR_SHARED_LIMIT": "1024"}
    done = subprocess.run([folder / RUNNER_NAME, tmp_path / "cases"], env=environ, capture_output=True, check=False)
    assert done.returncode == 0
