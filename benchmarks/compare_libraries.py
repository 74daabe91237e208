"""Times the same decode calls of two built libraries, interleaved in one process: before and after a change.

python benchmarks/compare_libraries.py BEFORE_FOLDER AFTER_FOLDER OUT.json     (needs a CUDA device)
Folders are configuration folders: build/cuda-sm_90-release of two trees.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from statistics import median

import torch

from sparkctl.bench.arms import decode_arm, plan_case
from sparkctl.bench.axes import DecodeCase, Heads
from sparkctl.bench.buffers import allocate_slots, count_slots
from sparkctl.bench.clocks import ClockReader
from sparkctl.bench.facts import find_facts
from sparkctl.bench.measure import GraphTimer, estimate_call_us, plan_calls, warm_up
from sparkctl.registry import find_project
from sparkctl.runtime import load_library
from sparkctl.workflows.stamp import read_stamp

SAMPLES = 30
CASES = [
    DecodeCase(1, 1024, Heads(32, 8), 128),
    DecodeCase(1, 4096, Heads(32, 8), 128),
    DecodeCase(1, 4096, Heads(32, 4), 128),
    DecodeCase(1, 16384, Heads(32, 8), 128),
    DecodeCase(8, 4096, Heads(32, 8), 128),
    DecodeCase(8, 16384, Heads(32, 8), 128),
    DecodeCase(64, 1024, Heads(32, 8), 128),
]


def main() -> None:
    """One line per case: both medians, their ratio, and the spread of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    libraries = {"before": load_library(options.before), "after": load_library(options.after)}
    device = f"cuda:{torch.cuda.current_device()}"
    clocks = ClockReader(str(torch.cuda.get_device_properties(device).uuid))
    facts = find_facts(device, clocks)
    results = []
    for case in CASES:
        slots = allocate_slots(case, count_slots(case, facts.l2_bytes), device=device)
        arms = {
            name: decode_arm(case, slots, plan_case(library, case, variant=None, device_sm_count=facts.sm_count)).arm
            for name, library in libraries.items()
        }
        calls = plan_calls(slots.count, min(estimate_call_us(arm, slots.count) for arm in arms.values()))
        timers = {name: GraphTimer(arm, slots=slots.count, calls=calls, clocks=clocks) for name, arm in arms.items()}
        warm_up(list(timers.values()))
        samples: dict[str, list[float]] = {name: [] for name in timers}
        for _ in range(SAMPLES):
            for name, timer in timers.items():
                samples[name].append(timer.take_sample().time_us)
        before, after = median(samples["before"]), median(samples["after"])
        print(f"{case.label:28} before {before:8.2f} µs  after {after:8.2f} µs  before / after {before / after:.3f}")
        results.append({"case": asdict(case), "label": case.label, "samples_us": samples})
        del timers, arms, slots
        torch.cuda.empty_cache()
    record = {
        "schema_version": 1,
        "kind": "compare_libraries",
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "stamp_after": asdict(read_stamp(find_project())),
        "digests": {name: library.manifest.digest for name, library in libraries.items()},
        "results": results,
    }
    options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
