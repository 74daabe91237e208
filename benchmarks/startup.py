"""How long `sparkctl --help` and a small command take from the shell: median and minimum of repeated runs.

python benchmarks/startup.py [RUNS]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

COMMANDS = (("--help",), ("flags", "--help"), ("flags", "list"), ("list",))


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    print(f"{'command':<28}{'median ms':>10}{'min ms':>10}   ({runs} runs)")
    bare = measure([sys.executable, "-c", "pass"], runs)
    for label, times in [("python -c pass", bare)] + [
        (" ".join(("sparkctl", *args)), measure([sys.executable, "-m", "sparkctl.cli.app", *args], runs))
        for args in COMMANDS
    ]:
        print(f"{label:<28}{statistics.median(times) * 1e3:>10.0f}{min(times) * 1e3:>10.0f}")


def measure(command: list[str], runs: int) -> list[float]:
    """Seconds of each run; the first, which fills the page cache, is left out."""
    times = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - start)
    return times[1:]


if __name__ == "__main__":
    main()
