"""After a run: what each edge was made from goes into the folder's state, what it cost into the history."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from sparkctl.build.cache_faults import HITS, parse_stats_log
from sparkctl.build.failures import save_failures
from sparkctl.build.history import Measurement, add_to_history, history_key
from sparkctl.build.model import BuildPlan, Edge, EdgeResult, Link, PlanResult, Status
from sparkctl.build.ninja_run import NinjaRun, read_dependencies, read_times
from sparkctl.build.ninja_text import link_words
from sparkctl.build.outputs import contents_digest, save_manifest, verify_archs
from sparkctl.build.paths import LINKS_NAME, path_text, tvm_folder
from sparkctl.build.stamps import Stamp, take_stamp
from sparkctl.build.state import UNKNOWN, EdgeRecord, FolderState, save_state
from sparkctl.build.survey import Survey, link_key
from sparkctl.runtime.manifest import MANIFEST_NAME

NINJA_NAME = "build.ninja"
_WARNING = re.compile(r"\bwarning *[:#]")


def record_run(survey: Survey, run: NinjaRun, history: Mapping[str, Measurement], began: float) -> PlanResult:
    """Save state, history and manifest; `began` is the monotonic time before anything was read.

    Raises WorkFailed if the library holds other archs than was asked, or a ptxas log came out empty.
    """
    plan = survey.plan
    state = record_edges(survey, run, began)
    results = edge_results(survey, run, history)
    save_failures(plan.folder, results)
    measured = [result for result in results if result.status == "built" and result.time_s is not None]
    saved = [result.saved_s for result in results if result.saved_s is not None]  # else it never ran here
    add_to_history(
        plan.environ,
        {history_key(plan, r.name): (r.time_s, r.peak_bytes) for r in measured if r.time_s is not None},
        saved,
    )
    if not run.failures:
        _describe_library(survey, state)
        results = (*results, *_repairs(survey, run))
    return summarise(survey, run, results, began)


def summarise(survey: Survey, run: NinjaRun, results: tuple[EdgeResult, ...], began: float) -> PlanResult:
    """For the report; nothing is written."""
    plan = survey.plan
    return PlanResult(
        label=plan.label,
        folder=plan.folder,
        compiler=plan.toolchain.describe_compiler(cuda=plan.backend == "cuda"),
        library=plan.root / plan.library,
        runner=plan.root / plan.runner if plan.runner else None,
        edges=results,
        linked=run.finished.get(plan.links[0].name, False),
        wall_s=time.monotonic() - began,
        kept=survey.kept,
        dropped=survey.dropped,
        warnings=_warnings(survey, run),
    )


def record_edges(survey: Survey, run: NinjaRun, began: float) -> FolderState:
    """Save what the edges that went well were made from and made; also after an interrupted run."""
    ran = [edge for edge in survey.edges if run.finished.get(edge.name)]
    linked = [link for link in survey.plan.links if run.finished.get(link.name)]
    if not ran and not linked:
        return survey.state
    made = {Path(path).name: s for path, s in _stamps(survey.plan.root, [link.output for link in linked]).items()}
    edges = {**survey.state.edges, **(_new_records(survey, ran, began) if ran else {})}
    state = FolderState(
        generation=survey.generation,
        edges=edges,
        manifest_key=survey.state.manifest_key,
        products={**survey.state.products, **made},
        linked={**survey.state.linked, **{link.file_name: link_key(link, survey.edges, edges) for link in linked}},
    )
    save_state(survey.plan.folder, state)
    return state


def is_settled(survey: Survey) -> bool:
    """Whether nothing is to be compiled, linked or written down."""
    return not survey.reasons and not any(survey.due_links()) and _is_described(survey, survey.state)


def _is_described(survey: Survey, state: FolderState) -> bool:
    known = MANIFEST_NAME in state.products and MANIFEST_NAME not in survey.broken
    return known and state.manifest_key == _digest(survey, state)


def _digest(survey: Survey, state: FolderState) -> str:
    return contents_digest(survey.plan, {edge.name: state.edges[edge.name] for edge in _library_edges(survey)})


def _library_edges(survey: Survey) -> tuple[Edge, ...]:
    return tuple(survey.plan.links[0].taken(survey.edges))


def _describe_library(survey: Survey, state: FolderState) -> None:
    """The manifest follows the library: it is written when it is not what we wrote or was made from other objects."""
    plan = survey.plan
    if _is_described(survey, state):
        return
    digest = _digest(survey, state)
    verify_archs(plan)
    save_manifest(plan, _library_edges(survey), digest)
    made = _stamps(plan.folder, [MANIFEST_NAME])
    save_state(plan.folder, replace(state, manifest_key=digest, products={**state.products, **made}))


def _repairs(survey: Survey, run: NinjaRun) -> Iterator[EdgeResult]:
    """A library, runner or manifest that was made again though no object asked for it."""
    links = [(link.file_name, link.name, run.finished.get(link.name, False)) for link in survey.plan.links]
    for name, title, done in (*links, (MANIFEST_NAME, "manifest", True)):
        if done and name in survey.broken:
            yield EdgeResult(title, "built", reason=survey.broken[name], is_variant=False)


def _stamps(root: Path, paths: Iterable[str]) -> dict[str, Stamp]:
    """A file that is gone already has none, and is built again."""
    return {path: stamp for path in paths if (stamp := take_stamp(root / path))}


def _new_records(survey: Survey, ran: Iterable[Edge], began: float) -> dict[str, EdgeRecord]:
    plan = survey.plan
    ninja_file = path_text(plan.folder / NINJA_NAME, plan.root)
    dependencies = read_dependencies(plan.toolchain.require_ninja(), ninja_file, cwd=plan.root)
    system = _system_prefixes(plan)
    began_ns = time.time_ns() - int((time.monotonic() - began) * 1e9)
    records = {}
    for edge in ran:
        listed = (os.path.normpath(path) for path in dependencies.get(edge.output, ()))
        paths = dict.fromkeys([edge.source, *(path for path in listed if not path.startswith(system))])
        inputs = {path: _settled_digest(survey, path, began_ns) for path in paths}
        outputs = _stamps(plan.root, edge.outputs)
        records[edge.name] = EdgeRecord(survey.salts[edge.name], edge.argv, plan.compiler_identity, inputs, outputs)
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
    folders = [plan.build_root / LINKS_NAME, tvm_folder(), *plan.toolchain.cuda_include_dirs]
    if plan.toolchain.nvcc:
        folders.append(plan.toolchain.nvcc.root)
    texts = {str(folder) for folder in folders} | {path_text(folder, plan.root) for folder in folders}
    return ("/usr/", *(f"{text}/" for text in sorted(texts)))


def edge_results(survey: Survey, run: NinjaRun, history: Mapping[str, Measurement]) -> tuple[EdgeResult, ...]:
    """What happened to each edge, and to the links that failed."""
    links = (_failed_link(link, run) for link in survey.plan.links if link.name in run.failures)
    return (*_compile_results(survey, run, history), *links)


def _compile_results(survey: Survey, run: NinjaRun, history: Mapping[str, Measurement]) -> Iterator[EdgeResult]:
    plan = survey.plan
    times = read_times(plan.folder / ".ninja_log") if run.finished else {}
    for edge in survey.edges:
        status = _status(plan.root, edge, survey, run)
        if status == "up to date" and edge.name in survey.kept:
            continue
        known = history.get(history_key(plan, edge.name))
        took = times.get(edge.output) if status in ("built", "cached") else None
        code, output = run.failures.get(edge.name, (None, None))
        yield EdgeResult(
            name=edge.name,
            status=status,
            time_s=took,
            saved_s=max(0.0, known.time_s - took) if status == "cached" and known and took is not None else None,
            peak_bytes=run.peaks.get(edge.name) if status == "built" else None,
            reason=survey.reasons.get(edge.name) or (None if status == "up to date" else "a toolkit header is newer"),
            command=shlex.join(edge.argv) if status == "failed" else None,
            output=output,
            exit_code=code,
            is_variant=edge.variant is not None,
        )


def _status(root: Path, edge: Edge, survey: Survey, run: NinjaRun) -> Status:
    if edge.name not in run.finished:
        # With no failure, ninja found nothing to do where we expected a touched file to matter.
        return "not run" if run.failures and edge.name in survey.reasons else "up to date"
    if not run.finished[edge.name]:
        return "failed"
    return "cached" if edge_counters(root, edge) & HITS else "built"


def edge_counters(root: Path, edge: Edge) -> frozenset[str]:
    """What ccache counted when the edge last ran; nothing where it ran without."""
    try:
        return parse_stats_log((root / edge.stats).read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return frozenset()


def _failed_link(link: Link, run: NinjaRun) -> EdgeResult:
    code, output = run.failures[link.name]
    command = shlex.join(link_words(link))
    return EdgeResult(link.name, "failed", command=command, output=output, exit_code=code, is_variant=False)


def _warnings(survey: Survey, run: NinjaRun) -> tuple[str, ...]:
    """Compilers' warnings: nvcc's are in the ptxas logs."""
    lines = [line for line in run.messages if _WARNING.search(line)]
    for edge in survey.edges:
        if edge.log and run.finished.get(edge.name):
            text = (survey.plan.root / edge.log).read_text(encoding="utf-8", errors="replace")
            lines += [line for line in text.splitlines() if _WARNING.search(line)]
    return tuple(dict.fromkeys(lines))
