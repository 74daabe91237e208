"""Saved runs read back: from the JSON of record.py to the same frozen data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from sparkctl.bench.ab import Ab, Bits, Comparison
from sparkctl.bench.axes import DecodeCase, Heads
from sparkctl.bench.lengths import Spread
from sparkctl.bench.record import RESULTS, SCHEMA_VERSION
from sparkctl.bench.results import (
    Ceiling,
    Environment,
    Failure,
    GemmCeiling,
    PeerResult,
    Row,
    Run,
    Sample,
    Sampling,
    Series,
    Stamp,
)
from sparkctl.bench.statistics import StopRule
from sparkctl.bench.traffic import Traffic
from sparkctl.errors import UsageError
from sparkctl.registry.suggest import did_you_mean

_Data = TypeVar("_Data")
_HEAD = 400  # characters of a file in which its kind stands


def load_run(path: Path) -> Run:
    """The run in a file. UsageError for no file, no JSON, another kind of result, and a newer version's."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="a file that bench --save wrote") from error
    except ValueError as error:
        raise UsageError(f"{path}: not JSON: {error}", hint="a file that bench --save wrote") from error
    kind = record.get("kind", "no kind") if isinstance(record, dict) else "no object"
    if kind != "bench":
        raise UsageError(f"{path}: {_kind_text(kind)}", hint="a file that bench --save wrote has kind bench")
    version = record.get("schema_version")
    if not isinstance(version, int) or version < 1:
        raise UsageError(f"{path}: no schema_version", hint="a file that bench --save wrote has one")
    if version > SCHEMA_VERSION:
        raise UsageError(
            f"{path}: schema_version {version}, and this sparkctl knows up to {SCHEMA_VERSION}",
            hint="a newer sparkctl reads it",
        )
    try:
        return parse_run(record)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise UsageError(
            f"{path}: not a whole result: {what}", hint="docs/bench.schema.json says what it holds"
        ) from error


def _kind_text(kind: str) -> str:
    return kind if kind in ("no kind", "no object") else f"a result of kind {kind}"


def find_results(name: str, root: Path) -> list[Path]:
    """The files of a name, one for each GPU that has it; a name that ends in .json is a path as it stands.

    UsageError, with the names that there are, where there is none.
    """
    if name.endswith(".json"):
        if not Path(name).is_file():
            raise UsageError(f"{name}: no such file", hint=_known_hint(name, root))
        return [Path(name)]
    found = [path for path in _result_files(root) if path.stem == name]
    if not found:
        raise UsageError(f"no saved result '{name}'", hint=_known_hint(name, root))
    return found


def one_result(name: str, root: Path) -> Path:
    """As `find_results`; UsageError where several GPUs have the name."""
    found = find_results(name, root)
    if len(found) > 1:
        listed = ", ".join(str(path.relative_to(root)) for path in found)
        raise UsageError(f"'{name}' is the name of {len(found)} results", hint=f"give the path: {listed}")
    return found[0]


def _result_files(root: Path) -> list[Path]:
    return [path for path in sorted((root / RESULTS).glob("*/*.json")) if _is_run(path)]


def _is_run(path: Path) -> bool:
    """By its first lines: the files are large."""
    try:
        with path.open(encoding="utf-8") as file:
            return '"kind": "bench"' in file.read(_HEAD)
    except (OSError, ValueError):
        return False


def _known_hint(name: str, root: Path) -> str:
    names = list(dict.fromkeys(path.stem for path in _result_files(root)))
    if not names:
        return f"there is none in {root / RESULTS}; bench --save NAME writes one"
    near, listed = did_you_mean(name, names) or "", "saved: " + ", ".join(names)
    return f"{near}\n{listed}" if near.startswith("did you mean") else listed


def parse_run(record: Mapping[str, Any]) -> Run:
    """The inverse of `run_record`; KeyError, TypeError or ValueError where something lacks."""
    rows = tuple(_parse_row(row) for row in record["rows"])
    ab = record.get("ab")
    return Run(
        environment=_parse_environment(record["environment"]),
        command=str(record["command"]),
        started=str(record["started"]),
        rows=rows,
        ab=None if ab is None else Ab(ab["name"], tuple(ab["values"])),
        comparisons=() if ab is None else tuple(_parse_comparison(one, rows) for one in ab["comparisons"]),
        failures=tuple(_parse_failure(one) for one in record.get("failures", ())),
        planned=record.get("planned_rows", len(rows)),
        interrupted=record.get("interrupted", False),
        lost=record.get("lost"),
        sampling=_parse_sampling(record.get("sampling")),
    )


def _known(kind: type[_Data], record: Mapping[str, Any], **changed: Any) -> _Data:
    """The fields that the class has; what a later version added is left out."""
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in record.items() if name in names} | changed)


def _parse_environment(record: Mapping[str, Any]) -> Environment:
    stamp = Stamp(record["stamp"]["commit"], record["stamp"]["dirty"])
    gemm = record.get("gemm")
    ceiling = None if gemm is None else GemmCeiling(gemm["size"], gemm["dtype"], _parse_series(gemm["time"]))
    return _known(Environment, record, stamp=stamp, flags=tuple(record["flags"].items()), gemm=ceiling)


def _parse_sampling(record: Mapping[str, Any] | None) -> Sampling | None:
    return None if record is None else Sampling(StopRule(**record["rule"]), record["budget_s"])


def _parse_case(record: Mapping[str, Any]) -> DecodeCase:
    lengths, spread = record.get("kv_lens"), record.get("spread")
    return _known(
        DecodeCase,
        record,
        heads=Heads(record["num_qo_heads"], record["num_kv_heads"]),
        kv_lens=None if lengths is None else tuple(lengths),
        spread=None if spread is None else _known(Spread, spread),
    )


def _parse_row(record: Mapping[str, Any]) -> Row:
    ceiling = record["ceiling"]
    return _known(
        Row,
        record,
        case=_parse_case(record["case"]),
        traffic=Traffic(kv_bytes=record["bytes"], q_bytes=0, out_bytes=0, flops=record["flops"]),
        series=_parse_series(record["time"]),
        eager=_parse_series(record["eager"]),
        ceiling=Ceiling(ceiling["kernel"], ceiling["bytes"], _parse_series(ceiling["time"])),
        peers=tuple(_parse_peer(peer) for peer in record["peers"]),
        arm=record.get("arm", ""),
    )


def _parse_failure(record: Mapping[str, Any]) -> Failure:
    return Failure(_parse_case(record["case"]), record["reason"], record["variant"] or "")


def _parse_peer(record: Mapping[str, Any]) -> PeerResult:
    time = record["time"]
    return PeerResult(record["name"], None if time is None else _parse_series(time), record["reason"])


def _parse_series(record: Mapping[str, Any]) -> Series:
    throttle = record["throttle"]
    samples = tuple(
        Sample(float(time_us), clock, tuple(throttle.get(str(index), ())))
        for index, (time_us, clock) in enumerate(zip(record["samples_us"], record["sm_clocks_mhz"], strict=True))
    )
    if not samples:
        raise ValueError("a series without a sample")
    return _known(Series, record, samples=samples)


def _parse_comparison(record: Mapping[str, Any], rows: Sequence[Row]) -> Comparison:
    case = _parse_case(record["case"])
    of_case = [row for row in rows if row.case == case and row.kernel == record["kernel"]]
    arms = {row.arm: row for row in of_case}
    base, other = arms[record["against"]], arms[record["arm"]]
    bits = record["bits"]
    return Comparison(base, other, Bits(bits["differing"], bits["total"], bits["largest"]))
