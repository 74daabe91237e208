"""Whether `bench --ab` tells equal arms from a slower one: a kernel against itself, then against a planted 2 %.

python benchmarks/ab_power.py OUT.json [--aa 200] [--planted 100] [--budget SECONDS]     (needs a CUDA device and nvcc)

Every comparison samples in rounds and judges as `bench --ab` does; buffers, graphs and timers are made once for each
pair of arms. The slower arm is the same variant in a library built with the flag `planted_work`, whose cycles are
calibrated until the interval of a long series lies within 1.7 and 2.3 %. Of 200 comparisons of equal arms 198 must say
"same", of 100 with the slower arm 95 must say "slower". Exit code 1 where a bar is missed, 3 without a device. OUT.json
is written after the first half too: what was measured stays when the second half fails.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from sparkctl.bench.ab import (  # noqa: E402
    INDIFFERENT,
    RATIO_CONFIDENCE,
    SAME_WITHIN,
    Judgement,
    judge,
    round_ratios,
)
from sparkctl.bench.arms import DecodeArm, count_differences, decode_arm, plan_case  # noqa: E402
from sparkctl.bench.axes import DecodeCase, Heads  # noqa: E402
from sparkctl.bench.buffers import Slots, allocate_slots, count_slots  # noqa: E402
from sparkctl.bench.clocks import ClockReader, Clocks  # noqa: E402
from sparkctl.bench.device import CudaDevice, Device  # noqa: E402
from sparkctl.bench.facts import DeviceFacts, find_cuda_device, find_facts  # noqa: E402
from sparkctl.bench.measure import WARM_UP_S, GraphTimer, estimate_call_us, flip, plan_calls, warm_up  # noqa: E402
from sparkctl.bench.results import Series  # noqa: E402
from sparkctl.bench.sampling import sample_rounds  # noqa: E402
from sparkctl.bench.statistics import Interval, StopRule, median, median_interval  # noqa: E402
from sparkctl.build.state import write_text  # noqa: E402
from sparkctl.errors import SparkctlError, WorkFailed  # noqa: E402
from sparkctl.registry import Registry, load_registry, select_variants  # noqa: E402
from sparkctl.runtime import Library  # noqa: E402
from sparkctl.workflows.bench import describe_environment, find_bench_arch  # noqa: E402
from sparkctl.workflows.bench_builds import open_arm_library  # noqa: E402
from sparkctl.workflows.bench_plan import COMBINE_KERNEL  # noqa: E402
from sparkctl.workflows.bench_request import BenchRequest  # noqa: E402

VARIANT = "attn_decode_split_kv_mma.bf16.d128"
FLAG = "planted_work"
CASES = (DecodeCase(1, 16384, Heads(32, 8), 128), DecodeCase(8, 4096, Heads(32, 8), 128))
SLOWDOWN, TOLERANCE = 0.02, 0.003  # what is planted, and how far the interval of a long series may reach from it
LONG = StopRule(min_samples=200, max_samples=200)
TRIES = 4
SAME_SHARE, FOUND_SHARE = 0.99, 0.95
DEFAULT_MHZ = 1980


@dataclass(frozen=True, slots=True)
class Compared:
    """One comparison: the first arm's time over the second's."""

    case: str
    ratio: float
    interval: Interval
    verdict: Judgement
    rounds: int
    throttled: int


@dataclass(frozen=True, slots=True)
class Lab:
    """What measures; `open_library(cycles)` builds and loads the variant with so much planted work."""

    device: Device
    clocks: Clocks
    facts: DeviceFacts
    open_library: Callable[[int], Library]
    warm_up_s: float = WARM_UP_S


@dataclass(frozen=True, slots=True)
class Pair:
    """Two arms on one case, ready to be compared any number of times."""

    device: Device
    case: DecodeCase
    slots: Slots
    arms: tuple[DecodeArm, DecodeArm]
    timers: dict[str, GraphTimer]

    def sample(self, rule: StopRule, budget_s: float) -> tuple[Series, Series]:
        """In rounds, with other queries and poisoned outputs in each."""
        first, second = (one.arm.name for one in self.arms)
        taken = sample_rounds(
            self.timers,
            rule=rule,
            budget_s=budget_s,
            now=self.device.now,
            pairs=[(first, second)],
            before_round=self.refresh,
        )
        return taken[first], taken[second]

    def refresh(self) -> None:
        flip(self.slots.q)
        for one in self.arms:
            one.poison()

    def compare(self, rule: StopRule, budget_s: float) -> Compared:
        return compared(self.case.label, *self.sample(rule, budget_s))

    def check_outputs(self) -> None:
        """WorkFailed unless the last timed calls wrote every output, the same bits in both arms."""
        if any(bool(out.isnan().any()) for one in self.arms for out in one.out):
            raise WorkFailed("NaN in the outputs of timed calls")
        bits = count_differences(self.arms[0].out, self.arms[1].out)
        if not bits.equal:
            raise WorkFailed(f"the arms' outputs differ: {bits}")


@dataclass(frozen=True, slots=True)
class Planted:
    """What the slower arm's library was built with, and how much slower a long series found it."""

    cycles: int
    slowdown: float
    interval: Interval  # of the slowdown
    tries: tuple[tuple[int, float, Interval], ...]  # (cycles, slowdown, its interval) of every try


def compared(case: str, first: Series, second: Series) -> Compared:
    """The verdict of bench on the second."""
    ratios = round_ratios(first, second)
    interval = median_interval(ratios, RATIO_CONFIDENCE)
    throttled = max(first.throttled, second.throttled)
    return Compared(case, median(ratios), interval, judge(interval), len(first.samples), throttled)


def slowdown_of(first: Series, second: Series) -> tuple[float, Interval]:
    """How much longer the second takes, as a share, and the interval: of the reciprocals of the rounds' ratios."""
    slower = [1 / ratio - 1 for ratio in round_ratios(first, second)]
    return median(slower), median_interval(slower, RATIO_CONFIDENCE)


def make_pair(lab: Lab, case: DecodeCase, libraries: Sequence[tuple[str, Library]]) -> Pair:
    """Both arms in as many splits as the first library's is planned for, each with outputs of its own."""
    slots = allocate_slots(case, count_slots(case, lab.facts.l2_bytes), device=lab.device.name)
    sm_count = lab.facts.sm_count
    splits = plan_case(libraries[0][1], case, variant=VARIANT, device_sm_count=sm_count).plan.num_splits
    fixed = DecodeCase(case.batch, case.kv_len, case.heads, case.head_dim, case.dtype, num_splits=splits)
    first, second = (
        decode_arm(
            case,
            slots,
            plan_case(library, fixed, variant=VARIANT, device_sm_count=sm_count),
            label=label,
            out=[out.clone() for out in slots.out],
        )
        for label, library in libraries
    )
    estimates = [estimate_call_us(one.arm, slots.count, lab.device) for one in (first, second)]
    calls = plan_calls(slots.count, min(estimates))
    timers = {
        one.arm.name: GraphTimer(one.arm, slots=slots.count, calls=calls, clocks=lab.clocks, device=lab.device)
        for one in (first, second)
    }
    warm_up(list(timers.values()), seconds=lab.warm_up_s)
    return Pair(lab.device, case, slots, (first, second), timers)


def calibrate(lab: Lab, case: DecodeCase, base: Library) -> tuple[Pair, Planted]:
    """Cycles until the interval of a long series is near SLOWDOWN; WorkFailed when TRIES are not enough."""
    equal = make_pair(lab, case, [("one", base), ("other", base)])
    first, _ = equal.sample(LONG, 0.0)
    mhz = median([sample.sm_clock_mhz or DEFAULT_MHZ for sample in first.samples])
    cycles, tries = max(1, round(SLOWDOWN * first.median_us * mhz)), list[tuple[int, float, Interval]]()
    del equal
    for _ in range(TRIES):
        pair = make_pair(lab, case, [("plain", base), ("planted", lab.open_library(cycles))])
        slowdown, interval = slowdown_of(*pair.sample(LONG, 0.0))
        tries.append((cycles, slowdown, interval))
        within = f"{interval.low:.2%} to {interval.high:.2%}"
        print(f"planted: {FLAG}={cycles} is {slowdown:.2%} slower ({within}) on {case.label}", flush=True)
        if interval.low >= SLOWDOWN - TOLERANCE and interval.high <= SLOWDOWN + TOLERANCE:
            return pair, Planted(cycles, slowdown, interval, tuple(tries))
        del pair
        cycles = next_cycles([(cycles, slowdown) for cycles, slowdown, _ in tries])
    listed = ", ".join(f"{cycles} cycles {slowdown:.2%}" for cycles, slowdown, _ in tries)
    raise WorkFailed(f"no planted work is {SLOWDOWN:.0%} ± {TOLERANCE:.1%}: {listed}")


def next_cycles(tries: Sequence[tuple[int, float]]) -> int:
    """On the line through the last two tries; after one, by twice or half at most in proportion to it."""
    cycles, slowdown = tries[-1]
    if len(tries) > 1:
        before, less = tries[-2]
        slope = (slowdown - less) / (cycles - before) if cycles != before else 0.0
        if slope > 0:
            return max(1, round(cycles + (SLOWDOWN - slowdown) / slope))
    factor = SLOWDOWN / slowdown if slowdown > 0 else 2.0
    return max(1, round(cycles * min(max(factor, 0.5), 2.0)))


def compare_often(pairs: Sequence[Pair], count: int, rule: StopRule, budget_s: float) -> list[Compared]:
    """`count` comparisons, the pairs in turn; the outputs of each pair are checked at the end."""
    found = [pairs[index % len(pairs)].compare(rule, budget_s) for index in range(count)]
    for pair in pairs[:count]:
        pair.check_outputs()
    return found


def prove(
    lab: Lab,
    *,
    aa: int,
    planted: int,
    budget_s: float,
    rule: StopRule | None = None,
    keep: Callable[[dict[str, Any]], None] = lambda found: None,
) -> dict[str, Any]:
    """Both halves; `passed` says whether every bar was reached. `keep` is given what there is after each half.

    A second half that fails is an `error` in what is kept, and is raised.
    """
    rule = rule or StopRule()
    found: dict[str, Any] = {
        "rule": {**asdict(rule), "confidence": RATIO_CONFIDENCE, "indifferent": INDIFFERENT, "same": SAME_WITHIN},
        "variant": VARIANT,
        "passed": False,
    }
    try:
        base = lab.open_library(0)
        found["equal_arms"] = compare_equal(lab, base, aa, rule, budget_s)
        keep(found)
        found["planted"] = compare_planted(lab, base, planted, rule, budget_s)
        found["passed"] = found["equal_arms"]["passed"] and found["planted"]["passed"]
    except Exception as error:
        found["error"] = str(error)
        raise
    finally:
        keep(found)
    return found


def compare_equal(lab: Lab, base: Library, count: int, rule: StopRule, budget_s: float) -> dict[str, Any]:
    """The library against itself, CASES in turn."""
    start = lab.device.now()
    pairs = [make_pair(lab, case, [("one", base), ("other", base)]) for case in CASES]
    equal = compare_often(pairs, count, rule, budget_s)
    told = report(equal, "same", SAME_SHARE, "a kernel against itself")
    seconds = round(lab.device.now() - start, 1)
    return {**told, "seconds": seconds, "comparisons": [asdict(one) for one in equal]}


def compare_planted(lab: Lab, base: Library, count: int, rule: StopRule, budget_s: float) -> dict[str, Any]:
    """The library against a slower one, calibrated on the first of CASES and compared there."""
    start = lab.device.now()
    pair, work = calibrate(lab, CASES[0], base)
    slower = compare_often([pair], count, rule, budget_s)
    told = report(slower, "slower", FOUND_SHARE, f"against a planted {work.slowdown:.2%}")
    seconds = round(lab.device.now() - start, 1)
    return {"flag": FLAG, **asdict(work), **told, "seconds": seconds, "comparisons": [asdict(one) for one in slower]}


def report(found: Sequence[Compared], wanted: Judgement, share: float, what: str) -> dict[str, Any]:
    """How many said what they should; prints it."""
    counts = {
        verdict: sum(one.verdict == verdict for one in found) for verdict in ("faster", "slower", "same", "unsure")
    }
    least = -(-round(len(found) * share * 1000) // 1000)
    passed = counts[wanted] >= least
    rest = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count and verdict != wanted)
    rounds = median([one.rounds for one in found])
    print(
        f"{what}: {counts[wanted]} of {len(found)} {wanted}{f', {rest}' if rest else ''}; at least {least} wanted: "
        f"{'passed' if passed else 'MISSED'}; {rounds:g} rounds each, ratios {min(one.ratio for one in found):.4f} to "
        f"{max(one.ratio for one in found):.4f}",
        flush=True,
    )
    return {"count": len(found), "verdicts": counts, "least": least, "passed": passed}


def open_lab(registry: Registry) -> Lab:
    """The CUDA device here. MissingTool without one."""
    arch = find_bench_arch()
    name = find_cuda_device()
    import torch

    shape = {"dtype": ["bf16"], "head_dim": ["128"]}
    variants = [*select_variants(registry, [VARIANT]), *select_variants(registry, [COMBINE_KERNEL], where=shape)]
    clocks = ClockReader(str(torch.cuda.get_device_properties(name).uuid))

    def open_library(cycles: int) -> Library:
        return open_arm_library(registry, variants, arch=arch, profile="release", sets={FLAG: str(cycles)})

    return Lab(CudaDevice(name), clocks, find_facts(name, clocks), open_library)


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--aa", type=int, default=200, metavar="N", help="comparisons of equal arms")
    parser.add_argument("--planted", type=int, default=100, metavar="N", help="comparisons with the slower arm")
    parser.add_argument("--budget", type=float, default=0.25, metavar="SECONDS", help="of sampling for a comparison")
    options = parser.parse_args()
    if options.aa < 1 or options.planted < 1:
        parser.error("--aa and --planted take at least 1")
    try:
        registry = load_registry(ROOT / "flags.yaml")
        return run(registry, open_lab(registry), options)
    except SparkctlError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


def run(registry: Registry, lab: Lab, options: argparse.Namespace) -> int:
    """The JSON file is written whether the bars are reached or not, and with an `error` when a half fails."""
    command = f"python benchmarks/ab_power.py {options.out.name} --aa {options.aa} --planted {options.planted}"
    command += f" --budget {options.budget:g}"
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    request = BenchRequest(CASES, peers=(), budget_s=options.budget, command=command)
    environment = describe_environment(registry.root, request, lab.open_library(0), lab.facts)
    head = {
        "schema_version": 1,
        "kind": "ab_power",
        "started": started,
        "command": command,
        "environment": asdict(environment),
    }

    def keep(found: dict[str, Any]) -> None:
        write_text(options.out, json.dumps({**head, **found}, indent=1) + "\n")

    found = prove(lab, aa=options.aa, planted=options.planted, budget_s=options.budget, keep=keep)
    print(f"written to {options.out}")
    return 0 if found["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
