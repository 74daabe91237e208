"""How fast `sparkctl build` answers: cold, with nothing to do, after one edit, and from a warm cache.

    python benchmarks/build_speed.py [KERNEL…] [--arch sm_90] [--backend cuda] [--rounds 5]

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
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", default=["attn_combine"])
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--backend", default="cuda", choices=["cuda", "emulator"])
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


def _measure(project: Path, cache: Path, arguments: argparse.Namespace) -> dict[str, object]:
    command = [sys.executable, "-m", "sparkctl.cli.app", "build", *arguments.kernels]
    command += ["--arch", arguments.arch, "--backend", arguments.backend, "--json"]
    environ = {**os.environ, "SPARKCTL_CACHE_DIR": str(cache)}
    environ.pop("CCACHE_DIR", None)

    def build() -> tuple[float, dict[str, int]]:
        began = time.perf_counter()
        done = subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - began
        if done.returncode != 0:
            raise SystemExit(f"the build failed:\n{done.stderr}")
        counts: dict[str, int] = {}
        for edge in json.loads(done.stdout)["libraries"][0]["edges"]:
            counts[edge["status"]] = counts.get(edge["status"], 0) + 1
        return seconds, counts

    cold_s, cold_edges = build()
    noop_s = statistics.median(build()[0] for _ in range(arguments.rounds))
    warm: list[float] = []
    warm_edges: dict[str, int] = {}
    for _ in range(arguments.rounds):
        shutil.rmtree(project / "build")
        seconds, warm_edges = build()
        warm.append(seconds)
    source = project / _one_source(project, arguments.kernels[0])
    source.write_text(
        source.read_text(encoding="utf-8") + '\nstatic_assert(sizeof(int) == 4, "edited");\n', encoding="utf-8"
    )
    edit_s, edit_edges = build()
    warm_s = statistics.median(warm)
    return {
        "schema_version": 1,
        "kernels": arguments.kernels,
        "arch": arguments.arch,
        "backend": arguments.backend,
        "cores": len(os.sched_getaffinity(0)),
        "load_before": os.getloadavg()[0],
        "cold_s": round(cold_s, 3),
        "noop_s": round(noop_s, 3),
        "warm_cache_s": round(warm_s, 3),
        "one_source_edited_s": round(edit_s, 3),
        "cold_over_warm": round(cold_s / warm_s, 1),
        "edges": {"cold": cold_edges, "warm": warm_edges, "edited": edit_edges},
    }


def _one_source(project: Path, pattern: str) -> str:
    from sparkctl.registry import load_registry, select_variants

    return select_variants(load_registry(project / "flags.yaml"), [pattern])[0].kernel.source


if __name__ == "__main__":
    sys.exit(main())
