"""`sparkctl bench --prefill`, from the command line to the screen, on a device that is made up."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import jsonschema
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fake_bench import ROOT, FakeBench
from test_bench_screens import Show, bench, one_thread, show  # noqa: F401 - fixtures

from sparkctl.bench.saved import load_run
from sparkctl.cli.app import main

SMALL = "--heads 8/2 --head-dim 64"
Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("width", [80, 120])
def test_prefill_beside_the_gemm_ceiling(bench: FakeBench, show: Show, width: int) -> None:  # noqa: F811
    """The samples are a decode's, doubled, beside tensor cores so slow that they bind the longer case."""
    bench.player.gemm_us = 4.4e5
    bench.player.speed = {f"attn_prefill_split_q_mma.bf16.d64{pages}": 2.0 for pages in ("", ".p1")}
    line = f"--prefill --causal --seq 64,256 --batch 1 {SMALL} --page-size none,16 --peers none"
    code, out, _ = show("prefill", line, width)
    assert code == 0
    assert "prefill, causal" in " ".join(out.split())
    heads = [line.split() for line in out.splitlines() if line.startswith("case  ")]
    assert [("TFLOP/s" in words, "GEMM" in words) for words in heads] == [(True, True)] * 2


def test_the_record_says_prefill_and_repeats(bench: FakeBench, capsys: Capture, tmp_path: Path) -> None:  # noqa: F811
    target = tmp_path / "run.json"
    line = f"--prefill --causal --seq 64 --batch 1,8 --qo-len 16,64 {SMALL} --save {target} -q"
    assert main(["bench", *shlex.split(line)]) == 0
    record = json.loads(target.read_text(encoding="utf-8"))
    jsonschema.validate(record, json.loads((ROOT / "docs" / "bench.schema.json").read_text(encoding="utf-8")))
    row = record["rows"][0]
    assert (row["case"]["prefill"], row["case"]["qo_len"], row["num_splits"]) == (True, 16, 1)
    assert {peer["reason"] for peer in row["peers"]} == {"not in the records"}
    assert load_run(target).rows[0].case.prefill
    capsys.readouterr()
    for row in record["rows"]:
        assert main(["bench", *shlex.split(row["repeat"])[2:], "-q", "--json"]) == 0
        assert [one["case"] for one in json.loads(capsys.readouterr().out)["rows"]] == [row["case"]]
    assert main(["bench", "--from", str(target), "--csv"]) == 0
    header, first, *_ = (line.split(",") for line in capsys.readouterr().out.splitlines())
    assert first[header.index("operator")] == "prefill"


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        (
            "attn_prefill_split_q_mma --seq 4k",
            "bench has no cases for attn_prefill_split_q_mma",
            "--prefill measures it",
        ),
        (
            "fa_split_gqa --prefill --seq 4k",
            "fa_split_gqa has no prefill",
            "--prefill measures attn_prefill_split_q_mma",
        ),
        ("--prefill --seq 4k --num-splits 2", "prefill divides no keys", "leave out --num-splits"),
        ("--prefill --ragged 128-1k", "bench has no prefill of several lengths", "leave out --prefill"),
        ("--prefill --causal --seq 1k --qo-len 2k", "leaves queries without a key", "a kv_len of at least qo_len"),
        ("--suite prefill --prefill", "--suite takes no --prefill", ""),
        ("--prefill --seq 4k --options lse", "--options is of decode", "leave out one of them"),
        ("--prefill --seq 4k --ab num_splits=1,2", "--ab num_splits is of decode", "leave out one of them"),
        ("--prefill --seq 4k --heads 130/2", "no prefill kernel accepts it", "takes group 1..64, not 65"),
    ],
)
def test_what_prefill_cannot_be_is_one_error(
    bench: FakeBench,  # noqa: F811
    capsys: Capture,
    line: str,
    message: str,
    hint: str,
) -> None:
    code = main(["bench", *shlex.split(line)])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert message in err
    assert hint in err
