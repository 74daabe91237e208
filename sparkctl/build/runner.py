"""Runs plans: takes the lock, surveys, runs ninja, records what came out."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from sparkctl.build.commands import path_text
from sparkctl.build.history import Measurement, add_to_history, history_key, load_history
from sparkctl.build.jobs import Jobs, plan_jobs
from sparkctl.build.limits import MachineLimits, read_limits
from sparkctl.build.locks import hold_lock
from sparkctl.build.model import BuildPlan, BuildResult, Edge, EdgeResult, PlanResult, Status
from sparkctl.build.ninja_run import NinjaRun, read_dependencies, read_times, run_ninja
from sparkctl.build.ninja_text import LINK_NAME, NinjaFile, ninja_text
from sparkctl.build.outputs import contents_digest, save_compile_commands, save_manifest, verify_archs
from sparkctl.build.plan import tvm_include_dirs
from sparkctl.build.progress import Progress, SilentProgress
from sparkctl.build.state import UNKNOWN, EdgeRecord, save_state, write_text
from sparkctl.build.survey import Survey, survey_folder
from sparkctl.errors import WorkFailed
from sparkctl.runtime.manifest import MANIFEST_NAME
from sparkctl.toolchain import CacheState, prepare_cache

NINJA_NAME = "build.ninja"
_HIT = re.compile(r"^(direct|preprocessed)_cache_hit$", re.MULTILINE)


def run_build(plans: Sequence[BuildPlan], *, jobs: int | None = None, progress: Progress | None = None) -> BuildResult:
    """Build every plan, one library after the other; failed edges are in the result, not raised.

    Raises WorkFailed where the build itself cannot go on: a folder that cannot be written, a full disk, a library
    that holds other archs than was asked.
    """
    watcher = progress or SilentProgress()
    notes: list[str] = []
    results: list[PlanResult] = []
    limits = read_limits()
    last = Jobs(jobs or 1, "-j", frozenset(), 1)
    for plan in plans:
        with _writing_errors(plan), hold_lock(plan.build_root, say=watcher.say) as lock_fd:
            result, last = _build_one(plan, limits, jobs, watcher, notes, lock_fd)
            results.append(result)
    return BuildResult(tuple(results), last.count, last.reason, tuple(notes))


def _build_one(
    plan: BuildPlan, limits: MachineLimits, asked: int | None, progress: Progress, notes: list[str], lock_fd: int
) -> tuple[PlanResult, Jobs]:
    began = time.monotonic()
    survey = survey_folder(plan)
    history = load_history(plan.environ)
    due = {edge.name: history.get(history_key(plan, edge.name)) for edge in survey.edges if edge.name in survey.reasons}
    peaks = {name: known.peak_bytes for name, known in due.items() if known and known.peak_bytes}
    jobs = plan_jobs(list(due), peaks, limits, asked=asked)
    _write_ninja_file(survey, jobs, history)
    cache = _start_of_work(survey, progress, notes) if due else None
    if due:
        progress.start(plan.label, {name: known.time_s if known else None for name, known in due.items()}, jobs.count)
    try:
        run = _run(survey, jobs, cache, progress, lock_fd)
    finally:
        progress.stop()
        shutil.rmtree(plan.folder / "tmp", ignore_errors=True)
    result = _record(survey, run, history, began)
    return result, jobs


def _write_ninja_file(survey: Survey, jobs: Jobs, history: Mapping[str, Measurement]) -> None:
    """Longest first; an edge never measured counts as the longest."""
    plan = survey.plan

    def rank(edge: Edge) -> tuple[float, str]:
        known = history.get(history_key(plan, edge.name))
        return (-known.time_s if known else float("-inf"), edge.name)

    for folder in {str(Path(edge.output).parent) for edge in survey.edges}:
        (plan.root / folder).mkdir(parents=True, exist_ok=True)
    text = ninja_text(
        NinjaFile(
            folder=path_text(plan.folder, plan.root),
            edges=sorted(survey.edges, key=rank) if survey.reasons else survey.edges,
            salts=survey.salts,
            heavy=jobs.heavy,
            heavy_depth=jobs.heavy_depth,
            library=plan.library,
            link_argv=plan.link_argv,
        )
    )
    write_text(plan.folder / NINJA_NAME, text)
    save_compile_commands(plan, plan.edges)


def _start_of_work(survey: Survey, progress: Progress, notes: list[str]) -> CacheState:
    """Before the first compiler runs: say that a run began, and look at the cache."""
    plan = survey.plan
    save_state(plan.folder, replace(survey.state, generation=survey.state.generation + 1))
    temp = plan.folder / "tmp"
    shutil.rmtree(temp, ignore_errors=True)
    temp.mkdir()
    cache = prepare_cache(
        plan.toolchain.ccache,
        environ=plan.environ,
        root=plan.root,
        compilers=plan.compiler_identity,
        temp=temp,
        private=plan.has_line_info,
    )
    if cache.problem and cache.problem not in notes:
        notes.append(cache.problem)
        progress.say(f"building without the cache: {cache.problem}" if cache.program is None else cache.problem)
    return cache


def _run(survey: Survey, jobs: Jobs, cache: CacheState | None, progress: Progress, lock_fd: int) -> NinjaRun:
    plan = survey.plan
    environ = {name: value for name, value in plan.environ.items() if name != "SPARKCTL_CCACHE"}
    if cache:
        environ |= {**cache.environ, "TMPDIR": str(plan.folder / "tmp")}
        if cache.program:
            environ["SPARKCTL_CCACHE"] = str(cache.program)

    def on_edge(name: str, ok: bool, _done: int, _total: int) -> None:
        if name != LINK_NAME:
            progress.edge(name, ok)

    run = run_ninja(
        plan.toolchain.require_ninja(),
        path_text(plan.folder / NINJA_NAME, plan.root),
        cwd=plan.root,
        environ=environ,
        jobs=jobs.count,
        lock_fd=lock_fd,
        on_edge=on_edge,
    )
    if run.returncode != 0 and not run.failures:
        raise WorkFailed("ninja stopped: " + "\n".join(run.messages[-20:] or [f"exit code {run.returncode}"]))
    return run


def _record(survey: Survey, run: NinjaRun, history: Mapping[str, Measurement], began: float) -> PlanResult:
    plan = survey.plan
    ran = {edge.name: edge for edge in survey.edges if run.finished.get(edge.name)}
    records = dict(survey.state.edges)
    if ran:
        records |= _new_records(survey, ran, began)
    results = tuple(_edge_results(survey, run, history))
    measured = {
        history_key(plan, r.name): (r.time_s, r.peak_bytes)
        for r in results
        if r.status == "built" and r.time_s is not None
    }
    add_to_history(plan.environ, measured)
    wanted = {edge.name: records[edge.name] for edge in survey.edges if edge.name in records}
    digest = contents_digest(plan, wanted)
    state = replace(survey.state, edges=records)
    if ran:
        state = replace(state, generation=state.generation + 1)
    if LINK_NAME in run.failures:
        results = (*results, _failed_link(run))
    elif not run.failures and (state.manifest_key != digest or not (plan.folder / MANIFEST_NAME).exists()):
        if LINK_NAME in run.finished:
            verify_archs(plan)
        save_manifest(plan, survey.edges, digest)
        state = replace(state, manifest_key=digest)
    if state != survey.state:
        save_state(plan.folder, state)
    return PlanResult(
        label=plan.label,
        folder=plan.folder,
        library=plan.root / plan.library,
        edges=results,
        linked=run.finished.get(LINK_NAME, False),
        wall_s=time.monotonic() - began,
        kept=survey.kept,
        dropped=survey.dropped,
        warnings=_warnings(plan, ran.values(), run),
    )


def _new_records(survey: Survey, ran: Mapping[str, Edge], began: float) -> dict[str, EdgeRecord]:
    plan = survey.plan
    ninja_file = path_text(plan.folder / NINJA_NAME, plan.root)
    dependencies = read_dependencies(plan.toolchain.require_ninja(), ninja_file, cwd=plan.root)
    system = _system_prefixes(plan)
    began_ns = time.time_ns() - int((time.monotonic() - began) * 1e9)
    records = {}
    for name, edge in ran.items():
        listed = (os.path.normpath(path) for path in dependencies.get(edge.output, ()))
        paths = dict.fromkeys([edge.source, *(path for path in listed if not path.startswith(system))])
        inputs = {path: _settled_digest(survey, path, began_ns) for path in paths}
        records[name] = EdgeRecord(survey.salts[name], edge.argv, plan.compiler_identity, inputs)
    return records


def _settled_digest(survey: Survey, path: str, began_ns: int) -> str:
    """The content that the compiler saw. A header met for the first time and written since we began is not known."""
    if not survey.inputs.knows(path):
        try:
            if (survey.plan.root / path).stat().st_mtime_ns >= began_ns:
                return UNKNOWN
        except OSError:
            return UNKNOWN
    return survey.inputs.digest(path)


def _system_prefixes(plan: BuildPlan) -> tuple[str, ...]:
    """Headers of compilers and packages: the compiler's identity and ninja's own look at their times cover them."""
    folders = [*plan.toolchain.cuda_include_dirs, *tvm_include_dirs()]
    if plan.toolchain.nvcc:
        folders.append(plan.toolchain.nvcc.root)
    texts = {str(folder) for folder in folders} | {path_text(folder, plan.root) for folder in folders}
    return ("/usr/", *(f"{text}/" for text in sorted(texts)))


def _edge_results(survey: Survey, run: NinjaRun, history: Mapping[str, Measurement]) -> Iterator[EdgeResult]:
    plan = survey.plan
    times = read_times(plan.folder / ".ninja_log") if run.finished else {}
    for edge in survey.edges:
        status = _status(plan.root, edge, survey, run)
        if edge.variant and edge.name in survey.kept and status == "up to date":
            continue
        known = history.get(history_key(plan, edge.name))
        took = times.get(edge.output) if status in ("built", "cached") else None
        saved = max(0.0, known.time_s - took) if status == "cached" and known and took is not None else None
        command, output = run.failures.get(edge.name, (None, None))
        yield EdgeResult(
            name=edge.name,
            status=status,
            time_s=took,
            saved_s=saved,
            peak_bytes=run.peaks.get(edge.name) if status == "built" else None,
            reason=survey.reasons.get(edge.name) or (None if status == "up to date" else "ninja found an input newer"),
            command=command,
            output=output,
            is_variant=edge.variant is not None,
        )


def _status(root: Path, edge: Edge, survey: Survey, run: NinjaRun) -> Status:
    if edge.name not in run.finished:
        return "not run" if edge.name in survey.reasons else "up to date"
    if not run.finished[edge.name]:
        return "failed"
    try:
        stats = (root / edge.stats).read_text(encoding="utf-8", errors="replace")
    except OSError:
        stats = ""
    return "cached" if _HIT.search(stats) else "built"


def _failed_link(run: NinjaRun) -> EdgeResult:
    command, output = run.failures[LINK_NAME]
    return EdgeResult(LINK_NAME, "failed", command=command, output=output, is_variant=False)


def _warnings(plan: BuildPlan, ran: Iterable[Edge], run: NinjaRun) -> tuple[str, ...]:
    """Compilers' warnings: nvcc's end up in the ptxas logs."""
    lines = [line for line in run.messages if "warning" in line]
    for edge in ran:
        if edge.log:
            text = (plan.root / edge.log).read_text(encoding="utf-8", errors="replace")
            lines += [line for line in text.splitlines() if "warning" in line.lower()]
    return tuple(dict.fromkeys(lines))


@contextmanager
def _writing_errors(plan: BuildPlan) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = error.filename or plan.folder
        raise WorkFailed(
            f"cannot build in {plan.build_root}: {error.strerror or error} ({where})",
            hint="make the folder writable and free some space",
        ) from error
