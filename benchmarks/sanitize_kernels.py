"""Our own kernels under every check: compute-sanitizer's tools on a GPU, or the emulator's.

python benchmarks/sanitize_kernels.py OUT.json [--backend cuda|emulator] [--cases N] [--timeout SECONDS]
                                      [--jobs N] [VARIANT...]

Each variant runs a few of its quick cases, evenly taken, in the standalone runner: with no check and under each. A run
on a GPU needs nvcc and compute-sanitizer. Exit code 1 where a check reports anything or a case fails, 3 where a tool or
a device is missing.
"""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, cast

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT)]

from compute_sanitizer import NO_TOOL, TOOLS, Run, describe_environment, find_tool, judge, write_json  # noqa: E402

from sparkctl.build import DEFAULT_ARCH, RUNNER_NAME, Sanitizer, ensure_built, with_combines  # noqa: E402
from sparkctl.errors import SparkctlError  # noqa: E402
from sparkctl.registry import Registry, Variant, load_registry, select_variants  # noqa: E402
from sparkctl.testing.case_file import CASE_SUFFIX, encode_case  # noqa: E402
from sparkctl.testing.cases import cases_for  # noqa: E402
from sparkctl.testing.export import export_case, recorder_for, refusal  # noqa: E402
from sparkctl.toolchain import find_devices  # noqa: E402
from sparkctl.workflows.stamp import read_stamp  # noqa: E402

Backend = Literal["cuda", "emulator"]
CHECKS = ("plain", "race", "memory", "undefined")
# One of every kernel and of every way to load a tile.
VARIANTS = (
    "attn_decode_split_kv.fp16.d96",
    "attn_decode_split_kv_mma.bf16.d64",
    "attn_decode_split_kv_mma.bf16.d64.reload.r16",
    "attn_paged_decode_split_kv.fp16.d96",
    "attn_paged_decode_split_kv_mma.bf16.d64.kv128",
    "fa_split_gqa.bf16.d64",
    "fa_split_gqa.bf16.d64.s1.p1",
    "attn_prefill_split_q.bf16.d64.l8",
    "attn_prefill_split_q_mma.bf16.d64.p1",
    "attn_combine.bf16.d64",
    "attn_merge_states.bf16.d96",
    "stream_read.u4",
)


@dataclass(frozen=True)
class Job:
    """One command: a variant's cases under a check."""

    variant: str
    check: str
    argv: tuple[str, ...]


def main() -> int:
    """Build, run, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("variants", nargs="*", default=VARIANTS, metavar="VARIANT")
    parser.add_argument("--backend", choices=("cuda", "emulator"), default="cuda")
    parser.add_argument("--cases", type=int, default=6, metavar="N", help="of each variant")
    parser.add_argument("--timeout", type=float, default=120.0, metavar="SECONDS", help="of one run")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    options = parser.parse_intermixed_args()
    tool = find_tool("compute-sanitizer", "bin", "compute-sanitizer")
    if options.backend == "cuda" and (tool is None or not find_devices()):
        print("error: compute-sanitizer or a CUDA device is missing", file=sys.stderr)
        return 3
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    registry = load_registry(ROOT / "flags.yaml")
    with tempfile.TemporaryDirectory(prefix="sparkctl-cases-") as folder:
        try:
            variants = select_variants(registry, options.variants, arch=DEFAULT_ARCH)
            counts = {v.name: write_cases(registry, v, Path(folder) / v.name, options.cases) for v in variants}
            jobs = list(plan_jobs(registry, variants, options.backend, Path(folder), tool or ""))
        except SparkctlError as error:
            print(f"error: {error}", file=sys.stderr)
            return error.exit_code
        with ThreadPoolExecutor(max(1, options.jobs)) as pool:
            runs = list(pool.map(lambda job: shown(run_job(job, options.backend, options.timeout)), jobs))
    stamp = read_stamp(ROOT)
    write_json(
        options.out,
        {
            "schema_version": 1,
            "environment": describe_environment(find_tool("nvcc", "bin") or "", tool or "")
            if options.backend == "cuda"
            else {"device": "the emulator", "commit": stamp.commit, "dirty": stamp.dirty},
            "command": f"python benchmarks/sanitize_kernels.py {options.out.name} --backend {options.backend} "
            f"--cases {options.cases} --jobs {options.jobs}",
            "started": started,
            "cases": counts,
            "runs": [asdict(run) for run in runs],
        },
    )
    odd = [run for run in runs if run.verdict != "clean"]
    print(f"{len(runs)} runs of {len(counts)} variants, {sum(counts.values())} cases in all: {len(odd)} not clean")
    print(f"saved to {options.out}")
    return 1 if odd else 0


def write_cases(registry: Registry, variant: Variant, folder: Path, wanted: int) -> int:
    """Case files of every n-th quick case; how many."""
    cases = [case for case in cases_for(variant) if not refusal(case)]
    step = max(1, len(cases) // wanted)
    folder.mkdir()
    for number, case in enumerate(cases[::step][:wanted]):
        file = export_case(recorder_for(registry), variant, case, 0)
        (folder / f"{number:02}{CASE_SUFFIX}").write_bytes(encode_case(file))
    return len(list(folder.iterdir()))


def plan_jobs(
    registry: Registry, variants: Sequence[Variant], backend: Backend, cases: Path, tool: str
) -> Iterator[Job]:
    """Every variant without a check, then under each."""
    needed = with_combines(registry, variants)
    if backend == "cuda":
        arch = find_devices()[0].arch
        runner = ensure_built(registry, needed, arch=arch, backend="cuda", profile="lineinfo", runner=True)
        under = {NO_TOOL: (), **{name: (tool, "--tool", name, "--print-limit", "20") for name in TOOLS}}
        runners = dict.fromkeys(under, runner)
    else:
        under = dict.fromkeys(CHECKS, ())
        runners = {
            check: ensure_built(
                registry,
                needed,
                arch=DEFAULT_ARCH,
                backend="emulator",
                runner=True,
                sanitizer=None if check == "plain" else cast(Sanitizer, check),
            )
            for check in CHECKS
        }
    for variant in variants:
        for check, words in under.items():
            yield Job(variant.name, check, (*words, str(runners[check] / RUNNER_NAME), str(cases / variant.name)))


def run_job(job: Job, backend: Backend, timeout_s: float) -> Run:
    """What the check said; a runner that fails a case is `wrong`, whatever the check says."""
    began = time.monotonic()
    run = Run(job.variant, "healthy", job.check)
    try:
        done = subprocess.run(
            job.argv, capture_output=True, text=True, errors="replace", timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        return replace(run, verdict="hang", seconds=timeout_s)
    output = done.stdout + done.stderr
    failed = [line for line in output.splitlines() if line.startswith(("FAIL ", "error: "))]
    if backend == "cuda" and job.check != NO_TOOL:
        run = judge(run, output, done.returncode)
        if run.verdict == "clean" and failed:
            run = replace(run, verdict="wrong", text=failed[0])
    else:
        text = failed[0] if failed else f"exit code {done.returncode}"
        run = replace(run, verdict="clean") if done.returncode == 0 else replace(run, verdict="found", text=text)
    return replace(run, seconds=round(time.monotonic() - began, 2))


def shown(run: Run) -> Run:
    print(f"{run.case:45} {run.tool:10} {run.verdict:8} {run.seconds:6.1f} s  {run.text[:120]}", flush=True)
    return run


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
