"""Saved runs: the schema that they meet, and reading them back."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from sparkctl.bench.record import SCHEMA_VERSION, run_record
from sparkctl.bench.results import Failure
from sparkctl.bench.saved import find_results, load_run, one_result, parse_run
from sparkctl.errors import UsageError

ROOT = Path(__file__).parents[3]
SCHEMA = json.loads((ROOT / "docs" / "bench.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
FILES = sorted((ROOT / "benchmarks" / "results" / "h200").glob("*.json"))
RUNS = [path for path in FILES if json.loads(path.read_text(encoding="utf-8")).get("kind") == "bench"]
each_run = pytest.mark.parametrize("path", RUNS, ids=[path.stem for path in RUNS])


def read(path: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


def test_the_schema_is_a_schema_and_there_are_runs_to_hold_against_it() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert {"decode", "paged", "ab_fapipe", "splits_rule"} <= {path.stem for path in RUNS}
    assert SCHEMA["properties"]["schema_version"]["maximum"] == SCHEMA_VERSION


@each_run
def test_every_committed_run_meets_the_schema(path: Path) -> None:
    VALIDATOR.validate(read(path))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda record: record.pop("environment"),
        lambda record: record["environment"].pop("driver"),
        lambda record: record["rows"][0]["time"].pop("samples_us"),
        lambda record: record["rows"][0]["time"].update(samples_us=[]),
        lambda record: record["rows"][0]["time"].update(median_us=None),
        lambda record: record["rows"][0]["peers"][0].pop("reason"),
        lambda record: record["rows"][0]["case"].update(l2="warm"),
        lambda record: record.update(kind="proof"),
        lambda record: record.update(schema_version=SCHEMA_VERSION + 1),
        lambda record: record.update(schema_version=2),  # whose rows have their repeat
    ],
)
def test_the_schema_refuses_what_is_no_run(spoil: Callable[[dict[str, Any]], object]) -> None:
    record = read(ROOT / "benchmarks/results/h200/decode.json")
    spoil(record)
    assert not VALIDATOR.is_valid(record)


def described(schema: dict[str, Any], value: object, where: str) -> list[str]:
    """The keys of `value` that the schema does not name."""
    if "$ref" in schema:
        return described(SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], value, where)
    if "anyOf" in schema:
        options = [one for one in schema["anyOf"] if one.get("type") != "null"]
        return [] if value is None else described(options[0], value, where)
    if isinstance(value, list):
        return [text for one in value[:3] for text in described(schema.get("items", {}), one, where)]
    if not isinstance(value, dict) or "additionalProperties" in schema:
        return []
    names = schema.get("properties", {})
    missing = [f"{where}.{key}" for key in value if key not in names]
    return missing + [
        t for key, one in value.items() if key in names for t in described(names[key], one, f"{where}.{key}")
    ]


@pytest.mark.parametrize("name", ["decode", "ab_stages"])
def test_every_key_of_a_new_record_is_in_the_schema_and_the_record_meets_it(name: str) -> None:
    run = load_run(ROOT / f"benchmarks/results/h200/{name}.json")
    record = {"schema_version": SCHEMA_VERSION, **run_record(run)}
    VALIDATOR.validate(record)
    assert described(SCHEMA, record, "run") == []
    record["rows"][0]["colour"] = "red"
    assert described(SCHEMA, record, "run") == ["run.rows.colour"]


@each_run
def test_a_run_read_back_gives_the_same_record(path: Path) -> None:
    saved, again = read(path), run_record(load_run(path))
    for row in [*saved["rows"], *saved.get("ab", {}).get("comparisons", ())]:
        row["case"].setdefault("page_size", None)  # what the oldest files leave out
    assert differences(saved, again, "run") == []


def test_how_a_run_ended_is_read_back_too() -> None:
    run = load_run(ROOT / "benchmarks/results/h200/decode.json")
    failure = Failure(run.rows[0].case, "out of memory", "k.bf16.d128")
    cut = replace(run, failures=(failure,), planned=9, interrupted=True, lost="unspecified launch failure")
    record = {"schema_version": SCHEMA_VERSION, **run_record(cut)}
    VALIDATOR.validate(record)
    assert described(SCHEMA, record, "run") == []
    again = parse_run(json.loads(json.dumps(record)))
    assert (again.failures, again.planned, again.interrupted, again.lost) == (
        (failure,),
        9,
        True,
        "unspecified launch failure",
    )


def differences(saved: Any, again: Any, where: str) -> list[str]:
    """Where `again` does not say what `saved` says; the last digits of a computed number may differ."""
    if isinstance(saved, dict):
        keys = [key for key in saved if key != "schema_version"]
        return [text for key in keys for text in differences(saved[key], again[key], f"{where}.{key}")]
    if isinstance(saved, list) and len(saved) == len(again):
        return [
            t for i, (a, b) in enumerate(zip(saved, again, strict=True)) for t in differences(a, b, f"{where}[{i}]")
        ]
    if isinstance(saved, float) and isinstance(again, float):
        return [] if again == pytest.approx(saved, rel=1e-9) else [f"{where}: {saved} and {again}"]
    return [] if saved == again else [f"{where}: {saved} and {again}"]


def refuse(path: Path) -> UsageError:
    with pytest.raises(UsageError) as caught:
        load_run(path)
    return caught.value


def test_a_file_that_is_no_run_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    assert refuse(path).message == f"{path}: No such file or directory"
    path.write_text('{"kind": "bench", ')
    assert refuse(path).message.startswith(f"{path}: not JSON: ")
    path.write_bytes(b"\xff\xfe\x00")
    assert refuse(path).message.startswith(f"{path}: not JSON: ")
    path.write_text("[1]")
    assert refuse(path).message == f"{path}: no object"
    path.write_text("{}")
    assert refuse(path).message == f"{path}: no kind"
    sweep = ROOT / "benchmarks/results/h200/decode_sweep.json"
    assert refuse(sweep).message == f"{sweep}: a result of kind decode_sweep"
    path.write_text('{"kind": "bench", "schema_version": 99}')
    assert refuse(path).message == f"{path}: schema_version 99, and this sparkctl knows up to {SCHEMA_VERSION}"
    path.write_text('{"kind": "bench", "schema_version": 1}')
    assert refuse(path).message == f"{path}: not a whole result: 'rows' is missing"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda row: row["time"].pop("calls"), "calls"),
        (lambda row: row["time"].update(samples_us=[], sm_clocks_mhz=[]), "a series without a sample"),
        (lambda row: row["time"]["samples_us"].append(1.0), "zip()"),
        (lambda row: row.update(peers=None), "NoneType"),
        (lambda row: row.update(time="fast"), "indices"),
    ],
)
def test_a_run_with_something_missing_says_what(
    tmp_path: Path, spoil: Callable[[dict[str, Any]], object], message: str
) -> None:
    record = copy.deepcopy(read(ROOT / "benchmarks/results/h200/decode.json"))
    spoil(record["rows"][1])
    path = tmp_path / "run.json"
    path.write_text(json.dumps(record))
    error = refuse(path)
    assert error.message.startswith(f"{path}: not a whole result: ")
    assert message in error.message


def test_a_name_is_found_under_every_gpu_and_an_unknown_one_lists_those_there_are(tmp_path: Path) -> None:
    for gpu in ("h200", "b200"):
        folder = tmp_path / "benchmarks/results" / gpu
        folder.mkdir(parents=True)
        (folder / "decode.json").write_text('{\n "schema_version": 1,\n "kind": "bench"}')
        (folder / "sweep.json").write_text('{\n "schema_version": 1,\n "kind": "sweep"}')
    assert [path.parent.name for path in find_results("decode", tmp_path)] == ["b200", "h200"]
    with pytest.raises(UsageError, match="'decode' is the name of 2 results"):
        one_result("decode", tmp_path)
    with pytest.raises(UsageError) as caught:
        find_results("decod", tmp_path)
    assert caught.value.message == "no saved result 'decod'"
    assert caught.value.hint == "did you mean 'decode'?\nsaved: decode"
    with pytest.raises(UsageError, match="no saved result 'sweep'"):
        find_results("sweep", tmp_path)
    with pytest.raises(UsageError, match=r"gone\.json: no such file"):
        find_results("gone.json", tmp_path)
    with pytest.raises(UsageError) as caught:
        find_results("x", tmp_path / "empty")
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("there is none in ")
