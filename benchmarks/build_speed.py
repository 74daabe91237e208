"""How fast `sparkctl build` answers, beside what it is meant to reach and beside a torch extension of the same kernel.

    python benchmarks/build_speed.py [OUT.json] [--kernel NAME]… [--variant NAME] [--arch sm_90] [--rounds 5]

Works on copies of the project in a temporary folder, each with a cache of its own; every time is one whole process,
started as a user starts it. Times are medians of the rounds, but for the cold build of all kernels, which is built once
and whose length evens it out. Where torch has no CUDA, `torch.utils.cpp_extension.load` refuses to start: then plain
nvcc compiles the same kernel with torch's headers and the same options, which is the larger part of what load does.

Prints a table and writes the numbers, the load of the machine before and after, and the tools' versions; no paths.
Exit code 1 where a build does something else than it should; a ratio that is missed is shown, not an error.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ("attn_combine", "attn_decode_split_kv_mma")
VARIANT = "attn_decode_split_kv_mma.bf16.d128"


@dataclass(frozen=True)
class Goal:
    """One line of the table. `value` is a ratio or seconds; `limit` is what is asked of it."""

    name: str
    value: float
    limit: float
    at_least: bool  # else at most
    unit: str

    @property
    def met(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit


class Project:
    """A copy of this project with a compile cache of its own."""

    def __init__(self, folder: Path, arch: str) -> None:
        self.root, self.arch = folder / "project", arch
        self.root.mkdir(parents=True)
        shutil.copy2(ROOT / "flags.yaml", self.root)
        shutil.copytree(ROOT / "csrc", self.root / "csrc")
        self.environ = {**os.environ, "SPARKCTL_CACHE_DIR": str(folder / "cache")}
        self.environ.pop("CCACHE_DIR", None)

    def sparkctl(self, *words: str) -> tuple[float, str]:
        """Seconds of one process, and what it printed."""
        command = [sys.executable, "-m", "sparkctl.cli.app", *words]
        began = time.perf_counter()
        done = subprocess.run(command, cwd=self.root, env=self.environ, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - began
        if done.returncode != 0:
            raise SystemExit(f"sparkctl {' '.join(words)} failed:\n{done.stderr}")
        return seconds, done.stdout

    def build(self, *names: str) -> tuple[float, dict[str, str]]:
        """Seconds, and the status of each edge by name."""
        seconds, text = self.sparkctl("build", *names, "--arch", self.arch, "--json")
        return seconds, {edge["name"]: edge["status"] for edge in json.loads(text)["libraries"][0]["edges"]}


def main() -> int:
    options = _parse()
    load = [os.getloadavg()[0]]
    with tempfile.TemporaryDirectory(prefix="sparkctl-speed-") as name:
        folder = Path(name)
        times, edges = measure_builds(Project(folder / "all", options.arch), options.kernel or KERNELS, options.rounds)
        single, torch = measure_beside_torch(folder, options)
    load.append(os.getloadavg()[0])
    goals = goals_of(times, single, torch["seconds"])
    print(table(goals, torch["what"]))
    if options.out:
        from sparkctl.workflows.stamp import read_stamp

        record = {
            "schema_version": 2,
            "kind": "build_speed",
            "command": f"python benchmarks/build_speed.py {options.out.name} {_words(options)}",
            "stamp": asdict(read_stamp(ROOT)),
            "environment": environment(load),
            "kernels": list(options.kernel or KERNELS),
            "variant": options.variant,
            "arch": options.arch,
            "times_s": times,
            "edges": edges,
            "one_variant_cold_s": single,
            "torch": torch,
            "goals": [{**asdict(goal), "met": goal.met} for goal in goals],
        }
        options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=Path, metavar="OUT.json")
    parser.add_argument("--kernel", action="append", metavar="NAME", help="the first is the one that is edited")
    parser.add_argument("--variant", default=VARIANT, metavar="NAME", help="the one beside a torch extension")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--torch-rounds", type=int, default=3)
    return parser.parse_args()


def _words(options: argparse.Namespace) -> str:
    kernels = " ".join(f"--kernel {name}" for name in options.kernel or ())
    return f"{kernels} --rounds {options.rounds} --torch-rounds {options.torch_rounds}".strip()


def measure_builds(
    project: Project, kernels: list[str] | tuple[str, ...], rounds: int
) -> tuple[dict[str, list[float]], dict[str, dict[str, int]]]:
    """Seconds of each kind of build, and what their edges were. SystemExit where one did not do its work, or more."""
    times: dict[str, list[float]] = {"help": [project.sparkctl("--help")[0] for _ in range(rounds + 1)][1:]}
    cold, cold_edges = project.build(*kernels)
    _expect("cold", cold_edges, {"built"})
    times["cold"] = [cold]
    times["noop"], times["warm"], times["edited"] = [], [], []
    for _ in range(rounds):
        seconds, edges = project.build(*kernels)
        _expect("no-op", edges, {"up to date"})
        times["noop"].append(seconds)
    warm_edges: dict[str, str] = {}
    for _ in range(rounds):
        shutil.rmtree(project.root / "build")
        seconds, warm_edges = project.build(*kernels)
        _expect("warm", warm_edges, {"cached"})
        times["warm"].append(seconds)
    edited = kernels[0]
    source = project.root / _source(project.root, edited)
    text = source.read_text(encoding="utf-8")
    edited_edges: dict[str, str] = {}
    for number in range(rounds):
        source.write_text(f'{text}\nstatic_assert(sizeof(int) == 4, "{number}");\n', encoding="utf-8")
        seconds, edited_edges = project.build(*kernels)
        _expect("edited", {n: s for n, s in edited_edges.items() if n.partition(".")[0] == edited}, {"built"})
        _expect("others", {n: s for n, s in edited_edges.items() if n.partition(".")[0] != edited}, {"up to date"})
        times["edited"].append(seconds)
    counts = {"cold": cold_edges, "warm": warm_edges, "edited": edited_edges}
    return (
        {name: [round(value, 3) for value in values] for name, values in times.items()},
        {name: dict(Counter(edges.values())) for name, edges in counts.items()},
    )


def measure_beside_torch(folder: Path, options: argparse.Namespace) -> tuple[list[float], dict[str, Any]]:
    """Cold builds of one variant, bindings and link included, and the same variant with torch's headers, in turns."""
    ours: list[float] = []
    theirs: list[float] = []
    what = ""
    for number in range(options.torch_rounds):
        project = Project(folder / f"one{number}", options.arch)
        seconds, edges = project.build(options.variant)
        _expect("one variant", edges, {"built"})
        ours.append(round(seconds, 3))
        seconds, what = time_torch(project, options.variant)
        theirs.append(round(seconds, 3))
    return ours, {"what": what, "seconds": theirs}


def time_torch(project: Project, variant: str) -> tuple[float, str]:
    """The variant's own source and options as a torch extension: by `load` where torch has CUDA, else by nvcc alone."""
    import torch
    from torch.utils import cpp_extension

    compiler, options, source = _own_command(project, variant)
    unit = project.root / "extension.cu"
    unit.write_text(f'#include <torch/extension.h>\n#include "{source}"\n{_MODULE}', encoding="utf-8")
    if torch.version.cuda is not None:
        script = project.root / "load.py"
        flags = [word for word in options if not word.startswith(("-gencode", "-std"))]
        script.write_text(_LOAD.format(source=str(unit), flags=flags), encoding="utf-8")
        environ = {**project.environ, "TORCH_EXTENSIONS_DIR": str(project.root / "extensions")}
        return _time([sys.executable, str(script)], project.root, environ), "torch.utils.cpp_extension.load"
    import sysconfig

    includes = [*cpp_extension.include_paths("cpu"), sysconfig.get_paths()["include"]]
    words = [word for word in options if not word.startswith("-std")]
    command = [compiler, "-std=c++20", *words, "-Xcompiler", "-fPIC", *(f"-I{folder}" for folder in includes)]
    command += ["-I", str(project.root), "-DTORCH_EXTENSION_NAME=extension", "-c", str(unit), "-o", "extension.o"]
    return _time(command, project.root, project.environ), "nvcc with torch's headers (this torch has no CUDA)"


_MODULE = "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}\n"
_LOAD = """\
from torch.utils.cpp_extension import load
load("extension", [{source!r}], extra_cuda_cflags={flags!r}, extra_include_paths=["."], is_python_module=False)
"""


def _own_command(project: Project, variant: str) -> tuple[str, list[str], str]:
    """The compiler, the options that decide the code, and the source of a variant's edge, as the build runs them."""
    from sparkctl.arch import parse_arch
    from sparkctl.build import plan_build
    from sparkctl.registry import load_registry, select_variants
    from sparkctl.toolchain import find_toolchain

    registry = load_registry(project.root / "flags.yaml")
    arch = parse_arch(project.arch)
    variants = select_variants(registry, [variant], arch=arch)
    toolchain = find_toolchain(environ=project.environ)
    plan = plan_build(registry, variants, arch=arch, backend="cuda", toolchain=toolchain, environ=project.environ)
    edge = next(edge for edge in plan.edges if edge.name == variant)
    words = list(edge.argv)
    options: list[str] = []
    index = 1
    while index < len(words):
        word = words[index]
        if word in ("-o", "-MF", "-MT", "-MQ"):
            index += 1
        elif word not in ("-c", "-MD", "-MMD", edge.source):
            options.append(word)
        index += 1
    return words[0], options, edge.source


def _time(command: list[str], cwd: Path, environ: dict[str, str]) -> float:
    began = time.perf_counter()
    done = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return time.perf_counter() - began


def goals_of(times: dict[str, list[float]], single: list[float], torch: list[float]) -> list[Goal]:
    """The ratios that are aimed at."""
    median = {name: statistics.median(values) for name, values in times.items()}
    return [
        Goal("`sparkctl --help`", round(median["help"], 3), 0.2, False, "s"),
        Goal("build with nothing to do", round(median["noop"], 3), 0.35, False, "s"),
        Goal("warm cache beside cold", round(median["cold"] / median["warm"], 1), 30, True, "times as fast"),
        Goal("one kernel edited beside cold", round(median["cold"] / median["edited"], 1), 1, True, "times as fast"),
        Goal(
            "one variant, cold, beside torch",
            round(statistics.median(torch) / statistics.median(single), 1),
            10,
            True,
            "times as fast",
        ),
    ]


def table(goals: list[Goal], torch: str) -> str:
    """Markdown, as docs/build.md has it."""
    lines = ["| what | measured | aim | |", "| --- | ---: | ---: | --- |"]
    for goal in goals:
        unit = " s" if goal.unit == "s" else " ×"
        aim = f"{'≥' if goal.at_least else '≤'} {goal.limit:g}{unit}"
        lines.append(f"| {goal.name} | {goal.value:g}{unit} | {aim} | {'met' if goal.met else 'missed'} |")
    return "\n".join([*lines, "", f"beside torch: {torch}"])


def environment(load: list[float]) -> dict[str, Any]:
    """What the times depend on; versions, no paths."""
    import torch

    from sparkctl.toolchain import find_toolchain

    toolchain = find_toolchain(environ=os.environ)
    cpu = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
    gxx = subprocess.run(["g++", "-dumpfullversion"], capture_output=True, text=True, check=False).stdout.strip()
    return {
        "cpu": cpu[1] if cpu else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "load_1min_before_and_after": [round(value, 2) for value in load],
        "python": platform.python_version(),
        "nvcc": toolchain.require_nvcc().version,
        "g++": gxx,
        "torch": torch.__version__,
    }


def _expect(build: str, edges: dict[str, str], statuses: set[str]) -> None:
    """A build that did something else measures something else."""
    if wrong := {name: status for name, status in edges.items() if status not in statuses}:
        raise SystemExit(f"the {build} build: {wrong}")


def _source(project: Path, kernel: str) -> str:
    from sparkctl.registry import load_registry, select_variants

    return select_variants(load_registry(project / "flags.yaml"), [kernel])[0].kernel.source


if __name__ == "__main__":
    sys.exit(main())
