"""What each check of the emulator costs: one case a kernel in the standalone runner, plain and under every sanitizer.

    python benchmarks/sanitizer_speed.py [OUT.json] [--markdown OUT.md] [--rounds 3] [--kernel NAME]

Decode kernels take a call of 4096 keys, 32 query heads over 8 kv heads, head_dim 128, batch 1; the others one of about
as much work. Seconds are CPU time (user and system) of one process of the runner, the median of the rounds: it depends
little on how busy the machine is. Wall-clock seconds stand beside it in the file. What is missing is built first.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sparkctl.build import DEFAULT_ARCH, RUNNER_NAME, Sanitizer, ensure_built, with_combines
from sparkctl.registry import Registry, Variant, find_project, load_registry, select_variants
from sparkctl.testing.case_file import encode_case
from sparkctl.testing.export import export_case, recorder_for
from sparkctl.testing.model import Case, CombineCase, DecodeCase, MergeCase, PrefillCase, StreamCase
from sparkctl.workflows.stamp import read_stamp

DECODE = DecodeCase((4096,), num_kv_heads=8, group=4, num_splits=8)
PAGED = DecodeCase((4096,), num_kv_heads=8, group=4, num_splits=8, slack=1, page_size=64)
PREFILL = PrefillCase((64,), (64,), num_kv_heads=8, group=4, causal=True)
CASES: Mapping[str, Case] = {
    "attn_decode_split_kv.bf16.d128": DECODE,
    "attn_decode_split_kv_mma.bf16.d128": DECODE,
    "attn_paged_decode_split_kv.bf16.d128": PAGED,
    "attn_paged_decode_split_kv_mma.bf16.d128": PAGED,
    "fa_split_gqa.bf16.d128": DECODE,
    "attn_prefill_split_q.bf16.d128": PREFILL,
    "attn_prefill_split_q_mma.bf16.d128": PREFILL,
    "attn_combine.bf16.d128": CombineCase(8, 4, 32, 64),
    "attn_merge_states.bf16.d128": MergeCase(8, 4, 32, 64),
    "stream_read.u4": StreamCase(16 * 2**20, 64),
}
CHECKS: tuple[Sanitizer | None, ...] = (None, "race", "memory", "undefined")
TIMEOUT_S = 600


def main() -> int:
    """Build, run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=Path, metavar="OUT.json")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kernel", action="append", metavar="KERNEL", help="only these; may be given several times")
    options = parser.parse_args()
    registry = load_registry(find_project() / "flags.yaml")
    variants = [
        v for v in select_variants(registry, list(CASES)) if v.kernel.name in (options.kernel or (v.kernel.name,))
    ]
    with TemporaryDirectory(prefix="sparkctl-sanitizer-speed-") as folder:
        files = {variant.name: write_case(registry, variant, Path(folder)) for variant in variants}
        runners = {check or "plain": build(registry, variants, check) for check in CHECKS}
        load = os.getloadavg()[0]
        rows = [measure(variant, files[variant.name], runners, options.rounds) for variant in variants]
    text = markdown(rows)
    print(text)
    if options.markdown:
        options.markdown.write_text(text + "\n", encoding="utf-8")
    if options.out:
        write_record(options.out, registry, rows, rounds=options.rounds, load=load)
    return 0 if all(seconds is not None for row in rows for seconds in row["cpu_s"].values()) else 1


def write_case(registry: Registry, variant: Variant, folder: Path) -> Path:
    path = folder / f"{variant.name}.case"
    path.write_bytes(encode_case(export_case(recorder_for(registry), variant, CASES[variant.name], 0)))
    return path


def build(registry: Registry, variants: Sequence[Variant], check: Sanitizer | None) -> Path:
    """The runner with every variant."""
    built = with_combines(registry, variants)
    folder = ensure_built(registry, built, arch=DEFAULT_ARCH, backend="emulator", runner=check is None, sanitizer=check)
    return folder / RUNNER_NAME


def measure(variant: Variant, case: Path, runners: Mapping[str, Path], rounds: int) -> dict[str, Any]:
    """Rounds outside, checks inside, so that a slower minute of the machine falls on all of them."""
    taken: dict[str, list[tuple[float, float]]] = {check: [] for check in runners}
    for _ in range(rounds):
        for check, runner in runners.items():
            if sample := run(runner, case, f"{variant.name}, {check}"):
                taken[check].append(sample)
    return {
        "variant": variant.name,
        "case": CASES[variant.name].id,
        "cpu_s": {check: median(cpu for cpu, _ in samples) for check, samples in taken.items()},
        "wall_s": {check: median(wall for _, wall in samples) for check, samples in taken.items()},
        "samples_s": taken,
    }


def median(values: Iterable[float]) -> float | None:
    found = list(values)
    return round(statistics.median(found), 3) if found else None


def run(runner: Path, case: Path, what: str) -> tuple[float, float] | None:
    """CPU and wall-clock seconds of one process; None where the case did not pass."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([runner, case], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{what}: {wall:.1f} s", file=sys.stderr)
    if done.returncode != 0:
        print(done.stdout.strip(), file=sys.stderr)
        return None
    return round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 3), round(wall, 3)


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Seconds, and how many times those of a plain run."""
    checks = [check or "plain" for check in CHECKS]
    lines = ["| kernel | " + " | ".join(checks) + " |", "| --- |" + " ---: |" * len(checks)]
    for row in rows:
        plain = row["cpu_s"]["plain"]
        cells = [
            "failed" if s is None else f"{s:.2f} s" + (f" ({s / plain:.0f}×)" if plain and check != "plain" else "")
            for check, s in row["cpu_s"].items()
        ]
        lines.append(f"| `{row['variant'].split('.')[0]}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def write_record(path: Path, registry: Registry, rows: Sequence[object], *, rounds: int, load: float) -> None:
    """Under a temporary name first."""
    record = {
        "schema_version": 1,
        "kind": "sanitizer_speed",
        "cores": len(os.sched_getaffinity(0)),
        "load_before": load,
        "rounds": rounds,
        "stamp": asdict(read_stamp(registry.root)),
        "command": f"python benchmarks/sanitizer_speed.py {path.name} --rounds {rounds}",
        "results": rows,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    draft.replace(path)


if __name__ == "__main__":
    sys.exit(main())
