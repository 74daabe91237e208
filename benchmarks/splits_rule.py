"""Short sequences with and without a least number of keys per split: what the planner's rule gained there.

python benchmarks/splits_rule.py OUT.json [--budget SECONDS]     (needs a CUDA device)

The old rule planned as today and then took no more splits than gave each of them MIN_KEYS keys. Both numbers of splits
of a case are measured in the same rounds, their outputs checked against the fp64 reference and compared bit by bit.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Sequence
from pathlib import Path

from sparkctl.bench.ab import Ab, Comparison, geometric_mean
from sparkctl.bench.arms import plan_case
from sparkctl.bench.axes import DecodeCase, Heads
from sparkctl.bench.record import save_run
from sparkctl.bench.results import Row, Run
from sparkctl.errors import SparkctlError
from sparkctl.ops.call import DecodeCall
from sparkctl.ops.plan import normalise_splits, tile_size
from sparkctl.registry import find_project, load_registry
from sparkctl.runtime import Library
from sparkctl.workflows.bench import Session, describe_environment, find_bench_arch, find_faults, open_cuda_bench
from sparkctl.workflows.bench_plan import plan_bench
from sparkctl.workflows.bench_request import BenchRequest

MIN_KEYS = 256
KV_LENS = (64, 128, 192, 256, 384, 512, 768, 1024)
SHAPES = (  # batch, heads, head_dim, dtype
    (1, Heads(32, 8), 128, "bf16"),
    (1, Heads(32, 4), 128, "bf16"),
    (4, Heads(32, 8), 128, "bf16"),
    (1, Heads(32, 8), 64, "bf16"),
    (1, Heads(32, 8), 128, "fp16"),
)
CASES = tuple(
    DecodeCase(batch, kv_len, heads, head_dim, dtype) for batch, heads, head_dim, dtype in SHAPES for kv_len in KV_LENS
)
AB = Ab("rule", ("old", "new"))


def capped_splits(planned: int, kv_len: int, tile: int) -> int:
    """The old rule: at most one split for every MIN_KEYS keys, none of them empty."""
    return normalise_splits(max(1, min(planned, kv_len // MIN_KEYS)), tiles=-(-kv_len // tile))


def plan_both(library: Library, case: DecodeCase, sm_count: int) -> tuple[DecodeCall, DecodeCall]:
    """The same variant in as many splits as the old rule and as the planner give it."""
    new = plan_case(library, case, variant=None, device_sm_count=sm_count)
    variant = library.variant(new.plan.variant)
    splits = capped_splits(new.plan.num_splits, case.kv_len, tile_size(variant))
    fixed = DecodeCase(case.batch, case.kv_len, case.heads, case.head_dim, case.dtype, num_splits=splits)
    return plan_case(library, fixed, variant=variant.name, device_sm_count=sm_count), new


def compare_rules(
    session: Session, library: Library, cases: Sequence[DecodeCase]
) -> tuple[list[Row], list[Comparison], list[DecodeCase]]:
    """Rows, comparisons, and the cases on which both rules agree; prints a line for each."""
    rows: list[Row] = []
    found: list[Comparison] = []
    equal: list[DecodeCase] = []
    for case in cases:
        old, new = plan_both(library, case, session.facts.sm_count)
        splits = f"{case.label:32} {old.plan.num_splits:4} → {new.plan.num_splits:<4}"
        if old.plan.num_splits == new.plan.num_splits:
            equal.append(case)
            print(f"{splits} the same splits", flush=True)
            continue
        more, (one,) = session.compare(case, [("rule=old", old), ("rule=new", new)])
        rows += more
        found.append(one)
        print(f"{splits} {describe(one)}", flush=True)
    return rows, found, equal


def describe(one: Comparison) -> str:
    """`4.31 → 3.12 µs, ratio 1.381 (1.376–1.388), faster, bits equal`."""
    before, after = one.base.series.median_us, one.other.series.median_us
    low, high = one.interval.low, one.interval.high
    return f"{before:6.2f} → {after:6.2f} µs, ratio {one.ratio:.3f} ({low:.3f}–{high:.3f}), {one.verdict}, {one.bits}"


def summarise(found: Sequence[Comparison], equal: Sequence[DecodeCase]) -> str:
    """The geometric mean of the ratios that were measured."""
    if not found:
        return "both rules give the same splits everywhere"
    mean = geometric_mean([one.ratio for one in found])
    return f"geometric mean of {len(found)} ratios: {mean:.3f}; {len(equal)} cases with the same splits are not in it"


def main() -> int:
    """Measure every case, print a line each, keep all samples with the environment."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--budget", type=float, default=2.0, metavar="SECONDS", help="of sampling for a case")
    options = parser.parse_args()
    if options.out.suffix != ".json":
        parser.error(f"{options.out} does not end in .json")
    try:
        return measure(options.out, options.budget)
    except SparkctlError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


def measure(out: Path, budget_s: float) -> int:
    """Build, measure, print, save; 1 where a result cannot be."""
    command = f"python benchmarks/splits_rule.py {out.name} --budget {budget_s:g}"
    request = BenchRequest(CASES, peers=(), budget_s=budget_s, command=command)
    registry = load_registry(find_project() / "flags.yaml")
    arch = find_bench_arch()
    library, session = open_cuda_bench(registry, request, plan_bench(registry, request, arch), arch, None)
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    rows, found, equal = compare_rules(session, library, CASES)
    print(summarise(found, equal))
    environment = describe_environment(registry.root, request, library, session.facts)
    run = Run(environment, command, started, tuple(rows), AB, tuple(found))
    print(f"saved to {save_run(run, str(out), registry.root)}")
    if faults := find_faults(run):
        print("\n".join(faults), file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
