"""Looks at a build folder and says which edges must run, and why."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkctl.build.model import BuildPlan, Edge, Link
from sparkctl.build.stamps import StampCheck
from sparkctl.build.state import EdgeRecord, FolderState, InputDigests, load_state
from sparkctl.runtime.manifest import MANIFEST_NAME


@dataclass(frozen=True, slots=True)
class Survey:
    """A plan held against the folder."""

    plan: BuildPlan
    state: FolderState
    edges: tuple[Edge, ...]  # the plan's own, then those kept
    kept: tuple[str, ...]
    dropped: tuple[str, ...]
    salts: Mapping[str, str]
    reasons: Mapping[str, str]  # edges that must run; an edge without one is up to date
    broken: Mapping[str, str]  # file names of library, runner and manifest, where one is not what was made -> why
    inputs: InputDigests
    outputs: StampCheck

    @property
    def generation(self) -> int:
        """The number of the run that follows this survey."""
        return self.state.generation + 1

    def due_links(self) -> Iterator[tuple[Link, str]]:
        """What must be linked again and why, as far as can be told before the edges run."""
        for link in self.plan.links:
            if reason := self._link_reason(link):
                yield link, reason

    def _link_reason(self, link: Link) -> str | None:
        name = link.file_name
        if any(edge.name in self.reasons for edge in link.taken(self.edges)):
            return "an object changed"
        if name in self.broken:
            return self.broken[name]
        if name not in self.state.products:
            return "not linked yet"
        key = link_key(link, self.edges, self.state.edges)
        return None if self.state.linked.get(name, key) == key else "an object changed"


def link_key(link: Link, edges: Iterable[Edge], records: Mapping[str, EdgeRecord]) -> str:
    """Stands for the command and the objects of a link; an object made again counts as another one, as for ninja."""
    stamps = {edge.output: records[edge.name].outputs.get(edge.output) for edge in link.taken(edges)}
    parts = [[path, stamp.digest if stamp else "", stamp.mtime_ns if stamp else 0] for path, stamp in stamps.items()]
    return hashlib.blake2b(json.dumps([link.argv, sorted(parts)]).encode(), digest_size=16).hexdigest()


def survey_folder(plan: BuildPlan) -> Survey:
    """Compare contents of inputs, commands and outputs with what the folder remembers."""
    state = load_state(plan.folder)
    inputs = InputDigests(plan.root)
    outputs = StampCheck(plan.root)
    kept, dropped = _sort_out_earlier(plan, state, inputs, outputs)
    edges = plan.edges + kept
    reasons: dict[str, str] = {}
    salts: dict[str, str] = {}
    for edge in edges:
        record = state.edges.get(edge.name)
        change = explain_change(edge, record, plan.compiler_identity, inputs)
        change = change or _explain_outputs(edge, record, outputs)
        if change is None and record is not None:
            salts[edge.name] = record.salt
            if touched := _touched(plan.root, record):
                reasons[edge.name] = touched
        else:
            salts[edge.name] = _salt(plan, edge, record, state.generation + 1, inputs)
            reasons[edge.name] = change or "new"
    return Survey(
        plan=plan,
        state=state,
        edges=edges,
        kept=tuple(edge.name for edge in kept),
        dropped=dropped,
        salts=salts,
        reasons=reasons,
        broken=_broken_products(plan, state, outputs),
        inputs=inputs,
        outputs=outputs,
    )


def explain_change(edge: Edge, record: EdgeRecord | None, compiler: str, inputs: InputDigests) -> str | None:
    """Why the outputs do not answer to the inputs: by the name of what changed; None if they do."""
    if record is None:
        return "not built in this folder yet"
    if record.compiler != compiler:
        return "the compiler changed"
    if record.argv != edge.argv:
        return _option_change(record.argv, edge.argv)
    changed = [path for path, digest in record.inputs.items() if inputs.digest(path) != digest]
    if not changed:
        return None
    first = changed[0]
    verb = "changed" if inputs.digest(first) else "is gone"
    more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
    return f"{first} {verb}{more}"


def _sort_out_earlier(
    plan: BuildPlan, state: FolderState, inputs: InputDigests, outputs: StampCheck
) -> tuple[tuple[Edge, ...], tuple[str, ...]]:
    """Variants that an earlier build left here and that are not selected now: still valid, and not."""
    kept: list[Edge] = []
    dropped: list[str] = []
    for name, record in state.edges.items():
        edge = plan.spare.get(name)
        if edge is None:
            continue
        change = explain_change(edge, record, plan.compiler_identity, inputs)
        if (change or _explain_outputs(edge, record, outputs)) is None:
            kept.append(edge)
        else:
            dropped.append(name)
    return tuple(kept), tuple(dropped)


def _option_change(before: Sequence[str], now: Sequence[str]) -> str:
    gone = [word for word in before if word not in now]
    new = [word for word in now if word not in before]
    if not gone and not new:
        return "the order of options changed"
    parts = [f"without {' '.join(gone)}"] if gone else []
    parts += [f"with {' '.join(new)}"] if new else []
    return f"options changed: {', '.join(parts)}"


def _explain_outputs(edge: Edge, record: EdgeRecord | None, outputs: StampCheck) -> str | None:
    known = record.outputs if record else {}
    found = (outputs.explain(path, known.get(path)) for path in edge.outputs)
    return next((reason for reason in found if reason), None)


def _broken_products(plan: BuildPlan, state: FolderState, outputs: StampCheck) -> dict[str, str]:
    """What was never made is not broken."""
    folder = Path(plan.library).parent
    names = [name for name in (*(link.file_name for link in plan.links), MANIFEST_NAME) if name in state.products]
    found = {name: outputs.explain(str(folder / name), state.products[name]) for name in names}
    return {name: reason for name, reason in found.items() if reason}


def _touched(root: Path, record: EdgeRecord) -> str | None:
    """ninja runs an edge whose input is younger than its output, whatever the content."""
    oldest = min(stamp.mtime_ns for stamp in record.outputs.values())
    for path in record.inputs:
        try:
            if (root / path).stat().st_mtime_ns > oldest:
                return f"{path} was touched (same content)"
        except OSError:
            continue
    return None


def _salt(plan: BuildPlan, edge: Edge, record: EdgeRecord | None, generation: int, inputs: InputDigests) -> str:
    """Stands for the compiler and the contents of the source and the headers of the last depfile."""
    known = dict.fromkeys([edge.source, *(record.inputs if record else ())])
    text = json.dumps([plan.compiler_identity, inputs.digests(known)], sort_keys=True)
    return f"{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}.{generation}"
