"""`sparkctl bench` of batches of several lengths, from the command line to the screen, on a device that is made up."""

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
LENGTHS = "4*64,3*300,892"  # 256 on average
Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("width", [80, 120])
def test_a_ragged_batch_stands_beside_as_many_keys_in_one_length(
    bench: FakeBench,  # noqa: F811
    show: Show,  # noqa: F811
    width: int,
) -> None:
    code, out, _ = show("ragged", f"--seq-lens {LENGTHS} {SMALL} --page-size none,16 --peers none", width)
    assert code == 0
    assert "1.25" in out


def test_lengths_are_drawn_for_each_batch(bench: FakeBench, show: Show) -> None:  # noqa: F811
    code, _, _ = show("drawn", f"--ragged 32-800 --seed 6 --batch 8 {SMALL} --no-equal --peers none")
    assert code == 0


def test_the_record_has_the_lengths_and_the_ratio_and_reads_back(
    bench: FakeBench,  # noqa: F811
    capsys: Capture,
    tmp_path: Path,
) -> None:
    target = tmp_path / "run.json"
    assert main(["bench", *shlex.split(f"--seq-lens {LENGTHS} {SMALL} --save {target} -q")]) == 0
    record = json.loads(target.read_text(encoding="utf-8"))
    jsonschema.validate(record, json.loads((ROOT / "docs" / "bench.schema.json").read_text(encoding="utf-8")))
    ragged, equal = record["rows"]
    assert ragged["case"]["kv_lens"] == [64] * 4 + [300] * 3 + [892]
    assert (equal["case"]["kv_len"], "kv_lens" in equal["case"], "over_equal" in equal) == (256, False, False)
    assert ragged["over_equal"] == pytest.approx(1.25, rel=0.01)
    assert ragged["bytes"] - equal["bytes"] == 4 * 8
    assert ragged["repeat"] == (
        f"sparkctl bench --seq-lens '{LENGTHS}' --no-equal --heads 8/2 --head-dim 64 --dtype bf16 --l2 cold "
        "--peers sdpa --budget 3 --profile release"
    )
    assert shlex.split(equal["repeat"])[2:6] == ["--seq", "256", "--batch", "8"]
    assert load_run(target).rows[0].case.kv_lens == tuple(ragged["case"]["kv_lens"])
    capsys.readouterr()
    assert main(["bench", "--from", str(target), "--csv"]) == 0
    header, first, second = (line.split(",") for line in capsys.readouterr().out.splitlines())
    assert first[header.index("kv_lens")] == "64 64 64 64 300 300 300 892"
    assert (second[header.index("kv_lens")], second[header.index("over_equal")]) == ("", "")
    assert main(["bench", *shlex.split(ragged["repeat"])[2:], "-q", "--json"]) == 0
    assert [row["case"] for row in json.loads(capsys.readouterr().out)["rows"]] == [ragged["case"]]


def test_a_repeated_draw_is_the_same_batch(bench: FakeBench, capsys: Capture) -> None:  # noqa: F811
    line = f"--ragged 32-800 --seed 6 --batch 8 {SMALL} --peers none -q --json --no-equal"
    assert main(["bench", *shlex.split(line)]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["case"]["spread"] == {"low": 32, "high": 800, "seed": 6}
    assert row["over_equal"] is None
    assert main(["bench", *shlex.split(row["repeat"])[2:], "-q", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["case"] == row["case"]


def test_one_case_that_fails_leaves_the_other(bench: FakeBench, capsys: Capture) -> None:  # noqa: F811
    bench.device.free = 3_000_000  # the ragged cache has room for 8 × 896 keys in each of two slots
    assert main(["bench", *shlex.split(f"--seq-lens {LENGTHS} {SMALL} --peers none -q")]) == 1
    out = capsys.readouterr().out
    assert "no result: 8 × 4*64+3*300+892, 8/2, d64, bf16" in " ".join(out.split())
    assert "8 × 256" in out


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("--seq 0", "--seq: '0' is less than 1", "a key, a query and a sequence at least"),
        ("--seq-lens 128,0", "--seq-lens: '0' is less than 1", "keys of each sequence, as in 128,1k,16k"),
        ("--seq-lens 128;1k", "--seq-lens: '128;1k' is not a size", "keys of each sequence, as in 128,1k,16k"),
        ("--seq-lens ''", "--seq-lens: '' is not a size", "keys of each sequence"),
        ("--seq-lens 65536*1", "--seq-lens: '65536*1' has more than 65535 lengths", "a row of the grid"),
        ("--seq-lens 2g", "--seq-lens: '2g' is not a size", "keys of each sequence"),
        ("--seq-lens 1100m,1", "no decode kernel accepts it", "takes kv_len 0..1073741824, not 1153433600"),
        ("--seq-lens 128,1k --batch 3", "--batch 3: --seq-lens has 2 lengths", "leave out --batch, or --batch 2"),
        ("--seq-lens 128,1k --batch 2,4", "--batch 2,4: --seq-lens has 2 lengths", "leave out --batch"),
        ("--seq-lens 128,1k --seq 4k", "--seq and --seq-lens exclude each other", "leave out --seq"),
        ("--ragged 128-1k --seq 4k", "--seq and --ragged exclude each other", "leave out --seq"),
        ("--ragged 128-1k --seq-lens 4k", "--seq-lens and --ragged exclude each other", "one draws them"),
        ("--ragged 1k", "--ragged: '1k' is no range of lengths", "as in 128-16k"),
        ("--ragged 1k-128", "--ragged: '1k-128': 128 is less than 1k", "as in 128-16k"),
        ("--ragged 0-128", "--ragged: '0' is less than 1", "as in 128-16k"),
        ("--ragged 128-1k --batch 70000", "--batch 70000: at most 65535", "a row of the grid"),
        (
            "--ragged 2-1k --batch 64 --causal --qo-len 16",
            "leaves queries without a key",
            "a kv_len of at least qo_len",
        ),
        ("--seed 3", "--seed draws nothing without --ragged", "--ragged 128-16k --seed 1"),
        ("--seq 4k --no-equal", "--no-equal: no case has several lengths", "beside --ragged or --seq-lens"),
        ("--suite ragged --ragged 1-2", "--suite takes no --ragged", ""),
        ("--suite ragged --batch 4", "--suite ragged has no case of --batch 4", "--batch 16,64"),
        ("--ragged 128-1k --peers fa4", "unknown peer 'fa4'", "did you mean 'fa3'"),
        ("--qo-len 1,0", "--qo-len: '0' is less than 1", "a key, a query"),
        ("--qo-len 1,17 --seq 4k", "no decode kernel accepts it", "takes qo_len 1..16, not 17"),
    ],
)
def test_wrong_lengths_are_one_error_before_anything_is_measured(
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
    assert bench.device.taken == {}
