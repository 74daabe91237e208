"""What a call of an operator costs on the host: directly, and through torch's dispatcher.

    python benchmarks/operator_overhead.py

CPU only. The emulator's library is called with empty batches, for which it launches nothing, so the times are those of
Python, the binding and the dispatcher; they say nothing about a GPU. Each figure is the fastest of several rounds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from sparkctl import ops
from sparkctl.ops.devices import default_library

ROUNDS = 40


def microseconds(arms: Mapping[str, Callable[[], Any]], calls: int) -> dict[str, float]:
    """Of one call of each arm, in its fastest round. The arms take turns, so that a busy machine slows all of them."""
    best = dict.fromkeys(arms, float("inf"))
    for name, call in [*arms.items()] * ROUNDS:
        start = time.perf_counter()
        for _ in range(calls):
            call()
        best[name] = min(best[name], (time.perf_counter() - start) / calls * 1e6)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=300, help="calls a round")
    calls = parser.parse_args().calls
    ops.register()
    q = torch.empty(0, 1, 32, 128, dtype=torch.bfloat16)
    k = torch.empty(0, 4096, 8, 128, dtype=torch.bfloat16)
    space = ops.allocate_workspace(q, 4)
    parts = {"part_acc": space.part_acc, "part_max": space.part_max, "part_sum": space.part_sum}
    out = torch.empty_like(q)
    given = {"out": out, "backend": "emulator"}
    library = default_library("cpu")
    shape = ops.DecodeShape(1, 1, 32, 8, 128, 4096, "bf16")
    planned = ops.plan_call(library, shape, num_splits=4)
    if planned is None:
        raise SystemExit("no decode kernel for head_dim 128 is built: sparkctl build --backend emulator")
    enter = library.function("decode")
    indices = [library.index[name] for name in (planned.plan.variant, planned.plan.combine_variant)]
    options = (0.1, False, -1, 0.0, None, None)
    binding_arguments = (*indices, q, k, k, None, out, None, *parts.values(), *options)
    arms: dict[str, Callable[[], Any]] = {
        "the binding alone": lambda: enter(*binding_arguments),
        "sparkctl.ops.decode": lambda: ops.decode(q, k, k, workspace=space, **given),
        "torch.ops.sparkctl.decode_out": lambda: torch.ops.sparkctl.decode_out(q, k, k, **parts, **given),
    }
    times = microseconds(arms, calls)
    print(f"torch {torch.__version__}, CPU, {calls} calls a round, fastest of {ROUNDS} rounds")
    for name, time_us in times.items():
        print(f"{name:<32} {time_us:8.2f} us")
    added = times["torch.ops.sparkctl.decode_out"] - times["sparkctl.ops.decode"]
    print(f"{'added by the dispatcher':<32} {added:8.2f} us")


if __name__ == "__main__":
    main()
