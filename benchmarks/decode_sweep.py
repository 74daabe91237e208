"""Times every stages × num_splits of the tensor-core decode on a few cases: what the split planner is fitted to.

python benchmarks/decode_sweep.py OUT.json [--set FLAG=VALUE ...]     (needs a CUDA device)
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import torch

from sparkctl.bench.arms import decode_arm, plan_case
from sparkctl.bench.axes import DecodeCase, Heads
from sparkctl.bench.buffers import allocate_slots, count_slots
from sparkctl.bench.clocks import ClockReader
from sparkctl.bench.facts import find_facts
from sparkctl.bench.measure import GraphTimer, estimate_call_us, plan_calls, warm_up
from sparkctl.build import ensure_built
from sparkctl.registry import find_project, load_registry, parse_sets, select_variants
from sparkctl.runtime import Library, load_library
from sparkctl.workflows.bench import find_bench_arch
from sparkctl.workflows.stamp import read_stamp

KERNEL = "attn_decode_split_kv_mma"
SAMPLES = 10
CASES = [
    (DecodeCase(1, 1024, Heads(32, 8), 128), (1, 2, 4, 8, 16)),
    (DecodeCase(1, 4096, Heads(32, 8), 128), (2, 4, 8, 11, 16, 22, 32, 64)),
    (DecodeCase(1, 4096, Heads(32, 4), 128), (4, 8, 16, 22, 32, 64)),
    (DecodeCase(1, 16384, Heads(32, 8), 128), (4, 8, 16, 22, 32, 64)),
    (DecodeCase(1, 16384, Heads(32, 4), 128), (8, 16, 32, 43, 64, 128)),
    (DecodeCase(1, 131072, Heads(32, 8), 128), (8, 16, 32, 64, 128)),
    (DecodeCase(8, 4096, Heads(32, 8), 128), (1, 2, 3, 4, 6, 8)),
    (DecodeCase(8, 16384, Heads(32, 8), 128), (1, 2, 3, 4, 6, 8, 16)),
    (DecodeCase(64, 1024, Heads(32, 8), 128), (1, 2, 4)),
    (DecodeCase(8, 16384, Heads(32, 8), 64), (1, 2, 4, 8)),
    (DecodeCase(4, 16384, Heads(16, 8), 256), (2, 4, 8, 16)),
]


def sweep(
    library: Library, case: DecodeCase, splits: tuple[int, ...], device: str, clocks: ClockReader
) -> list[dict[str, Any]]:
    """Median µs of every variant × num_splits, interleaved in one run."""
    facts = find_facts(device, clocks)
    slots = allocate_slots(case, count_slots(case, facts.l2_bytes), device=device)
    names = [
        v.name
        for v in library.manifest.variants
        if v.kernel == KERNEL and v.values["dtype"] == case.dtype and v.values["head_dim"] == case.head_dim
    ]
    arms = {}
    for name in names:
        for n in splits:
            fixed = DecodeCase(**{**asdict(case), "heads": case.heads, "num_splits": n})
            call = plan_case(library, fixed, variant=name, device_sm_count=facts.sm_count)
            arms[(name, n)] = decode_arm(fixed, slots, call).arm
    calls = plan_calls(slots.count, min(estimate_call_us(arm, slots.count) for arm in arms.values()))
    timers = {key: GraphTimer(arm, slots=slots.count, calls=calls, clocks=clocks) for key, arm in arms.items()}
    warm_up(list(timers.values()))
    taken = [{key: timer.take_sample().time_us for key, timer in timers.items()} for _ in range(SAMPLES)]
    rows = []
    for (name, n), _ in arms.items():
        times = [sample[(name, n)] for sample in taken]
        rows.append({"variant": name, "num_splits": n, "time_us": median(times), "samples_us": times})
    return rows


def main() -> None:
    """Sweep every case, print the best of each, keep all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--set", action="append", default=[], dest="sets")
    options = parser.parse_args()
    registry = load_registry(find_project() / "flags.yaml")
    arch = find_bench_arch()
    sets = parse_sets(registry, options.sets)
    variants = select_variants(registry, [KERNEL, "attn_combine"], arch=arch, where={"dtype": ["bf16"]})
    folder = ensure_built(registry, variants, arch=arch, backend="cuda", sets=sets)
    library = load_library(folder)
    device = f"cuda:{torch.cuda.current_device()}"
    clocks = ClockReader(str(torch.cuda.get_device_properties(device).uuid))
    results = []
    for case, splits in CASES:
        rows = sweep(library, case, splits, device, clocks)
        torch.cuda.empty_cache()
        best = sorted(rows, key=lambda row: row["time_us"])
        print(f"{case.label}")
        for row in best[:6]:
            print(f"    {row['time_us']:8.2f} µs  {row['variant']}  {row['num_splits']} splits")
        results.append({"case": asdict(case), "label": case.label, "rows": rows})
    record = {
        "schema_version": 1,
        "kind": "decode_sweep",
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "stamp": asdict(read_stamp(registry.root)),
        "flags": dict(sets),
        "library_digest": library.manifest.digest,
        "command": " ".join(
            ["python", "benchmarks/decode_sweep.py", options.out.name, *(f"--set {s}" for s in options.sets)]
        ),
        "results": results,
    }
    draft = options.out.with_suffix(".tmp")
    draft.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    draft.replace(options.out)


if __name__ == "__main__":
    main()
