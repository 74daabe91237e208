"""What a build folder remembers: for each edge, the command, the contents of its inputs, and its outputs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sparkctl.build.stamps import Stamp
from sparkctl.toolchain import hash_files

STATE_NAME = "state.json"
STATE_VERSION = 2
UNKNOWN = "?"  # the digest of an input that may have changed while it was compiled: equal to nothing


@dataclass(frozen=True, slots=True)
class EdgeRecord:
    """One edge as it was last built."""

    salt: str
    argv: tuple[str, ...]
    compiler: str
    inputs: Mapping[str, str]  # path as in the depfile -> digest
    outputs: Mapping[str, Stamp] = field(default_factory=dict)  # path -> as it was built


@dataclass(frozen=True, slots=True)
class FolderState:
    """`generation` counts runs, so that what an interrupted one left unrecorded is never taken for known."""

    generation: int = 0
    edges: Mapping[str, EdgeRecord] = field(default_factory=dict)
    manifest_key: str = ""  # what the manifest on disk was written from
    products: Mapping[str, Stamp] = field(default_factory=dict)  # library, runner and manifest, by file name
    linked: Mapping[str, str] = field(default_factory=dict)  # library and runner: stands for what they were linked from


def load_state(folder: Path) -> FolderState:
    """The folder's state; an empty one if there is none that can be read."""
    try:
        data = json.loads((folder / STATE_NAME).read_text(encoding="utf-8"))
        if data["version"] != STATE_VERSION:
            return FolderState()
        edges = {name: _record(entry) for name, entry in data["edges"].items()}
        linked = {str(name): str(key) for name, key in data.get("linked", {}).items()}
        return FolderState(int(data["generation"]), edges, str(data["manifest_key"]), _stamps(data["products"]), linked)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return FolderState()


def inputs_of(folder: Path) -> dict[str, Mapping[str, str]]:
    """For each edge that was built: the project's files that it was made from, and their digests."""
    records = load_state(folder).edges.items()
    return {name: record.inputs for name, record in records if UNKNOWN not in record.inputs.values()}


def save_state(folder: Path, state: FolderState) -> None:
    """Write atomically."""
    edges = {name: asdict(record) for name, record in sorted(state.edges.items())}
    write_text(
        folder / STATE_NAME,
        json.dumps(
            {
                "version": STATE_VERSION,
                "generation": state.generation,
                "manifest_key": state.manifest_key,
                "products": {name: asdict(stamp) for name, stamp in sorted(state.products.items())},
                "linked": dict(sorted(state.linked.items())),
                "edges": edges,
            },
            indent=1,
        ),
    )


def write_text(target: Path, text: str) -> bool:
    """Write `text` atomically; a file that holds it already is left alone. Returns whether it was written."""
    try:
        if target.read_text(encoding="utf-8") == text:
            return False
    except (OSError, UnicodeDecodeError):
        pass
    draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    return True


class InputDigests:
    """Digests of files' contents, each file read once per build."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, str] = {}

    def digest(self, path: str) -> str:
        """Of one file, relative paths from the root; "" if it cannot be read."""
        if path not in self._known:
            try:
                self._known[path] = hash_files([self._root / path])
            except OSError:
                self._known[path] = ""
        return self._known[path]

    def digests(self, paths: Iterable[str]) -> dict[str, str]:
        """Of several."""
        return {path: self.digest(path) for path in paths}

    def knows(self, path: str) -> bool:
        """Whether the file has been read already."""
        return path in self._known


def _record(entry: Mapping[str, Any]) -> EdgeRecord:
    inputs, outputs = dict(entry["inputs"]), _stamps(entry["outputs"])
    return EdgeRecord(entry["salt"], tuple(entry["argv"]), entry["compiler"], inputs, outputs)


def _stamps(entries: Mapping[str, Any]) -> dict[str, Stamp]:
    return {name: Stamp(**entry) for name, entry in entries.items()}
