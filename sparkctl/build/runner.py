"""Runs plans: takes the lock, surveys, runs ninja, has the outcome recorded."""

from __future__ import annotations

import errno
import shlex
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from sparkctl.build.cache_faults import cache_faults
from sparkctl.build.failures import DISK_FULL
from sparkctl.build.history import Measurement, history_key, load_history
from sparkctl.build.jobs import Jobs, plan_jobs
from sparkctl.build.limits import MachineLimits, read_limits
from sparkctl.build.locks import hold_lock
from sparkctl.build.model import BuildPlan, BuildResult, Edge, PlanResult
from sparkctl.build.ninja_run import NinjaRun, run_ninja
from sparkctl.build.ninja_text import NinjaFile, ninja_text
from sparkctl.build.outputs import save_compile_commands
from sparkctl.build.paths import make_links, path_text
from sparkctl.build.progress import Progress, SilentProgress
from sparkctl.build.record import (
    NINJA_NAME,
    edge_counters,
    edge_results,
    is_settled,
    record_edges,
    record_run,
    summarise,
)
from sparkctl.build.state import save_state, write_text
from sparkctl.build.survey import Survey, survey_folder
from sparkctl.errors import WorkFailed
from sparkctl.toolchain import CacheState, prepare_cache


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
        with _writing_errors(plan), ExitStack() as stack:
            try:
                lock_fd = stack.enter_context(hold_lock(plan.build_root, say=watcher.say))
            except OSError as error:
                results.append(_read_only(plan, error))
                continue
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
    _write_files(survey, jobs, history)
    survey.outputs.restore_times()
    for link in plan.links:
        if link.file_name in survey.broken or link.file_name not in survey.state.products:
            (plan.folder / link.file_name).unlink(missing_ok=True)  # ninja would take it for its own
    # Even with nothing due ninja has a look: it also knows the times of the toolkit's headers.
    cache = _prepare(survey, progress, notes)
    if due:
        progress.start(plan.label, {name: known.time_s if known else None for name, known in due.items()}, jobs.count)
    run = NinjaRun()
    try:
        _run(survey, jobs, cache, progress, lock_fd, run)
    except KeyboardInterrupt:
        record_edges(survey, run, began)
        raise
    finally:
        progress.stop()
        shutil.rmtree(plan.folder / "tmp", ignore_errors=True)
    if cache.program:
        counters = [edge_counters(plan.root, edge) for edge in survey.edges if run.finished.get(edge.name)]
        for fault in cache_faults(counters, folder=cache.folder, environ={**plan.environ, **cache.environ}):
            _note(fault, notes, progress)
    return record_run(survey, run, history, began), jobs


def _read_only(plan: BuildPlan, error: OSError) -> PlanResult:
    """A folder in which nothing can be written is good enough if nothing has to be; else the error stands."""
    began = time.monotonic()
    if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
        raise error
    survey = survey_folder(plan)
    if not is_settled(survey):
        raise error
    return summarise(survey, NinjaRun(), edge_results(survey, NinjaRun(), {}), began)


def _write_files(survey: Survey, jobs: Jobs, history: Mapping[str, Measurement]) -> None:
    """The ninja file with the longest edges first; one never measured counts as the longest."""
    plan = survey.plan

    def rank(edge: Edge) -> tuple[float, str]:
        known = history.get(history_key(plan, edge.name))
        return (-known.time_s if known else float("-inf"), edge.name)

    make_links(plan.paths)
    if not survey.state.generation:
        # No state, or one that is lost: what ninja remembers is of commands that cannot be told from the coming ones.
        for name in (".ninja_log", ".ninja_deps"):
            (plan.folder / name).unlink(missing_ok=True)
    for folder in {str(Path(edge.output).parent) for edge in survey.edges}:
        (plan.root / folder).mkdir(parents=True, exist_ok=True)
    text = ninja_text(
        NinjaFile(
            folder=path_text(plan.folder, plan.root),
            edges=sorted(survey.edges, key=rank) if survey.reasons else survey.edges,
            salts=survey.salts,
            heavy=jobs.heavy,
            heavy_depth=jobs.heavy_depth,
            links=plan.links,
        )
    )
    write_text(plan.folder / NINJA_NAME, text)
    save_compile_commands(plan)


def _prepare(survey: Survey, progress: Progress, notes: list[str]) -> CacheState:
    """Before the first compiler runs: say that a run began, and look at the cache if it will be used."""
    plan = survey.plan
    temp = plan.folder / "tmp"
    shutil.rmtree(temp, ignore_errors=True)
    temp.mkdir()
    if survey.reasons:
        save_state(plan.folder, replace(survey.state, generation=survey.generation))
    cache = prepare_cache(
        plan.toolchain.ccache,
        environ=plan.environ,
        root=plan.root,
        compilers=plan.compiler_identity,
        temp=temp,
        private=plan.has_line_info,
        look=bool(survey.reasons),
    )
    if cache.warning and survey.reasons:
        _note(
            f"building without the cache: {cache.warning}" if cache.program is None else cache.warning, notes, progress
        )
    return cache


def _note(text: str, notes: list[str], progress: Progress) -> None:
    """Once for each text, however many libraries are built."""
    if text not in notes:
        notes.append(text)
        progress.say(text)


def _run(survey: Survey, jobs: Jobs, cache: CacheState, progress: Progress, lock_fd: int, run: NinjaRun) -> None:
    plan = survey.plan
    # One language for every compiler: the cache keys on it, and what a hit replays must read the same everywhere.
    dropped = {"SPARKCTL_CCACHE", "LANG", "LANGUAGE"} | {name for name in plan.environ if name.startswith("LC_")}
    environ = {name: value for name, value in plan.environ.items() if name not in dropped}
    environ |= {**cache.environ, "LC_ALL": "C.UTF-8", "TMPDIR": path_text(plan.folder / "tmp", plan.root)}
    if cache.program:
        environ["SPARKCTL_CCACHE"] = str(cache.program)

    links = {link.name for link in plan.links}

    def on_edge(name: str, ok: bool) -> None:
        if name not in links:
            progress.edge(name, ok)

    run_ninja(
        plan.toolchain.require_ninja(),
        path_text(plan.folder / NINJA_NAME, plan.root),
        cwd=plan.root,
        environ=environ,
        jobs=jobs.count,
        run=run,
        lock_fd=lock_fd,
        on_edge=on_edge,
    )
    if run.returncode != 0 and not run.failures:
        said = "\n".join(run.messages[-20:] or [f"exit code {run.returncode}"])
        hint = f"free some space for {plan.build_root}" if DISK_FULL in said else None
        raise WorkFailed(f"ninja stopped: {said}", hint=hint)


@contextmanager
def _writing_errors(plan: BuildPlan) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = Path(error.filename or plan.folder)
        if error.errno in (errno.EEXIST, errno.ENOTDIR):
            in_the_way = next((path for path in (*reversed(where.parents), where) if _is_no_folder(path)), where)
            raise WorkFailed(
                f"cannot build in {plan.build_root}: {in_the_way} is not a folder",
                hint=f"move it away: mv {shlex.quote(str(in_the_way))} {shlex.quote(f'{in_the_way}.old')}",
            ) from error
        raise WorkFailed(
            f"cannot build in {plan.build_root}: {error.strerror or error} ({where})",
            hint="make the folder writable, or free some space",
        ) from error


def _is_no_folder(path: Path) -> bool:
    return (path.is_symlink() and not path.exists()) or path.is_file()
