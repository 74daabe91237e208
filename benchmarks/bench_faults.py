"""How `sparkctl bench` ends when things go wrong, on a real device: each fault in a process of its own.

    python benchmarks/bench_faults.py

Needs a CUDA device and builds what is missing. Exits 1 when a run ended otherwise than docs/measuring.md says.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass

SHORT = ["--seq", "4k,16k", "--batch", "1", "--budget", "0.5", "--peers", "sdpa"]
PLANT = """
import sys
import torch
from sparkctl.bench.peers import PEERS
from sparkctl.bench.peers.base import PeerArm
from sparkctl.cli.app import main

def arms(case, slots):
    def call(slot):
        if case.kv_len == 16384:
            {fault}
        return slots.out[slot].clone()
    return (PeerArm("planted", call),)

PEERS["sdpa"] = arms
sys.exit(main(sys.argv[1:]))
"""
ASSERT = "torch.zeros(1, device='cuda')[torch.tensor([5], device='cuda')]"
RAISE = "raise RuntimeError('planted')"
INTERRUPT = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"


@dataclass(frozen=True)
class Fault:
    """`code` with `args` must end so."""

    name: str
    fault: str
    args: list[str]
    exit_code: int
    said: tuple[str, ...]  # on either stream


FAULTS = (
    Fault("device-side assert", ASSERT, SHORT, 1, ("the device was lost while planted ran", "1 of 2 rows")),
    Fault("peer that raises", RAISE, SHORT, 0, ("planted did not run", "RuntimeError: planted")),
    Fault("Ctrl-C", INTERRUPT, SHORT, 130, ("interrupted: 1 of 2 rows were measured", "error: interrupted")),
    Fault(
        "does not fit",
        "pass",
        ["--seq", "4k,1m", "--batch", "64", "--budget", "0.5", "--peers", "none"],
        1,
        ("are free on cuda:0", "1 of 2 rows failed"),
    ),
)


def main() -> int:
    """Runs all, a line each."""
    failed = 0
    for fault in FAULTS:
        start = time.monotonic()
        script = PLANT.format(fault=fault.fault)
        command = [sys.executable, "-c", script, "bench", *fault.args]
        run = subprocess.run(command, capture_output=True, text=True, timeout=300)
        text = " ".join((run.stdout + run.stderr).split())
        missing = [words for words in fault.said if words not in text]
        missing += ["no traceback"] if "Traceback" in text else []
        right = run.returncode == fault.exit_code and not missing
        failed += not right
        print(f"{'ok' if right else 'WRONG':5}  {fault.name}: exit {run.returncode}, {time.monotonic() - start:.0f} s")
        if not right:
            print(f"expected exit {fault.exit_code}, and lacking {missing}\n{run.stdout}{run.stderr}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
