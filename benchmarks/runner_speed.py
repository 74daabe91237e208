"""How fast one kernel's standalone test runner is built: cold, with nothing to do, touched, edited, and from the cache.

    python benchmarks/runner_speed.py [KERNEL] [--arch sm_90] [--backend cuda] [--rounds 3]

Works on a copy of the project in a temporary folder with a cache of its own; every time is one whole process, started
as a user starts it. Prints one JSON object; times in seconds, the median of the rounds where there are rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    arguments = _parse()
    with tempfile.TemporaryDirectory(prefix="sparkctl-speed-") as folder:
        project = Path(folder) / "project"
        project.mkdir()
        shutil.copy2(ROOT / "flags.yaml", project)
        shutil.copytree(ROOT / "csrc", project / "csrc")
        print(json.dumps(_measure(project, Path(folder) / "cache", arguments), indent=2))
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel", nargs="?", metavar="KERNEL", default="attn_combine.bf16.d128")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--backend", default="cuda", choices=["cuda", "emulator"])
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


def _measure(project: Path, cache: Path, arguments: argparse.Namespace) -> dict[str, object]:
    words = ["build", arguments.kernel, "--runner", "--arch", arguments.arch, "--backend", arguments.backend, "--json"]
    command = [sys.executable, "-m", "sparkctl.cli.app", *words]
    environ = {**os.environ, "SPARKCTL_CACHE_DIR": str(cache)}
    environ.pop("CCACHE_DIR", None)

    def build() -> tuple[float, dict[str, int]]:
        began = time.perf_counter()
        done = subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - began
        if done.returncode != 0:
            raise SystemExit(f"the build failed:\n{done.stderr}")
        return seconds, Counter(edge["status"] for edge in json.loads(done.stdout)["libraries"][0]["edges"])

    def rounds(before_each: object) -> tuple[float, dict[str, int]]:
        results = []
        for _ in range(arguments.rounds):
            before_each()  # type: ignore[operator]
            results.append(build())
        return statistics.median(seconds for seconds, _ in results), results[-1][1]

    source = _source_of(project, arguments.kernel)
    cold = build()
    measured = {
        "cold": cold,
        "nothing_to_do": rounds(lambda: None),
        "source_touched": rounds(source.touch),
        "warm_cache": rounds(lambda: shutil.rmtree(project / "build")),
        "source_edited": rounds(lambda: _edit(source)),
        "runner_edited": rounds(lambda: _edit(project / "csrc" / "runner" / "compare.cpp")),
    }
    return {
        "schema_version": 1,
        "kernel": arguments.kernel,
        "arch": arguments.arch,
        "backend": arguments.backend,
        "cores": len(os.sched_getaffinity(0)),
        "load_before": os.getloadavg()[0],
        "seconds": {name: round(seconds, 3) for name, (seconds, _) in measured.items()},
        "edges": {name: counts for name, (_, counts) in measured.items()},
        "cold_over_warm": round(cold[0] / measured["warm_cache"][0], 1),
    }


def _edit(source: Path) -> None:
    text = source.read_text(encoding="utf-8")
    source.write_text(f'{text}\nstatic_assert({time.time_ns()} > 0, "edited");\n', encoding="utf-8")


def _source_of(project: Path, kernel: str) -> Path:
    from sparkctl.registry import load_registry, select_variants

    return project / select_variants(load_registry(project / "flags.yaml"), [kernel])[0].kernel.source


if __name__ == "__main__":
    sys.exit(main())
