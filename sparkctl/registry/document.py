"""A YAML text as plain data plus the line of every key and list item, so that each error can say where."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from sparkctl.errors import UsageError
from sparkctl.registry.model import Location

KeyPath = tuple[str | int, ...]
Pairs = dict[str, tuple[yaml.Node, yaml.Node]]  # a map's keys: the nodes of key and value

MAX_ENTRIES = 20_000  # maps, lists and values, those of aliases each time: a hundred times a usual file
MAX_INTEGER = 2**63 - 1
NUMBER_TAGS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
OCTAL = re.compile(r"[+-]?0[0-7_]+")
MERGE_TAG = "tag:yaml.org,2002:merge"


@dataclass(frozen=True, slots=True)
class Document:
    """`lines` maps the path of each key (`("kernels", "attn_combine", "block")`) and list item to its line."""

    file: str
    data: Any
    lines: Mapping[KeyPath, int]

    def location(self, path: KeyPath) -> Location:
        """The line of `path`, or of the nearest thing around it that was written."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.lines:
                return Location(self.file, self.lines[path[:end]])
        return Location(self.file, 1)

    def below(self, path: KeyPath) -> dict[str, Location]:
        """The lines of all that is written under `path`, keyed `set.fast_math` or `affects.0`."""
        depth = len(path)
        return {
            ".".join(map(str, key[depth:])): Location(self.file, line)
            for key, line in self.lines.items()
            if len(key) > depth and key[:depth] == path
        }


def problem(location: Location, path: KeyPath, what: str, hint: str | None = None) -> UsageError:
    """The one form of an error in the registry: `flags.yaml:14: key kernels.x.block: what`."""
    return UsageError(f"{location}: key {dotted(path)}: {what}", hint=hint)


def dotted(path: KeyPath) -> str:
    """`kernels.attn_combine.axes.head_dim.values[2]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "(top level)"


def parse_document(text: str, file: str) -> Document:
    """UsageError for a syntax error, a duplicate key, several documents or an empty text."""
    loader = yaml.SafeLoader("")
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            raise UsageError(f"{file}:1: the file is empty", hint="docs/registry.md has the grammar")
        lines: dict[KeyPath, int] = {(): node.start_mark.line + 1}
        data = _Reader(loader, file, lines).read(node, (), ())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise UsageError(f"{file}:{line}: not YAML: {_sentence(error)}", hint=_yaml_hint(text, line)) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise UsageError(f"{file}:{line}: not YAML: the character {error.character!r} is not allowed") from error
    except RecursionError as error:
        raise UsageError(f"{file}:1: not YAML: nested too deep") from error
    finally:
        loader.dispose()
    return Document(file, data, lines)


class _Reader:
    """Turns nodes into data and notes their lines."""

    def __init__(self, loader: yaml.SafeLoader, file: str, lines: dict[KeyPath, int]) -> None:
        self.loader = loader
        self.file = file
        self.lines = lines
        self.count = 0
        self.merged: dict[yaml.Node, Pairs | None] = {}

    def read(self, node: yaml.Node, path: KeyPath, parents: tuple[yaml.Node, ...]) -> Any:
        self.count += 1
        if self.count > MAX_ENTRIES:
            hint = "each alias counts with all that it stands for"
            raise problem(self._at(node), path, f"too many aliases, or more than {MAX_ENTRIES} entries", hint)
        if node in parents:
            raise problem(self._at(node), path, "an alias that contains itself")
        if isinstance(node, yaml.MappingNode):
            return self._read_mapping(node, path, (*parents, node))
        if isinstance(node, yaml.SequenceNode):
            items = []
            for index, item in enumerate(node.value):
                self.lines[(*path, index)] = item.start_mark.line + 1
                items.append(self.read(item, (*path, index), (*parents, node)))
            return items
        return self._read_scalar(node, path)

    def _read_mapping(self, node: yaml.MappingNode, path: KeyPath, parents: tuple[yaml.Node, ...]) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key, (key_node, value_node) in self._merge(node, path).items():
            self.lines[(*path, key)] = key_node.start_mark.line + 1
            data[key] = self.read(value_node, (*path, key), parents)
        return data

    def _merge(self, node: yaml.MappingNode, path: KeyPath) -> Pairs:
        """The keys with those of `<<: *base`; own keys win, then those of the first base."""
        if node in self.merged:
            pairs = self.merged[node]
            if pairs is None:
                raise problem(self._at(node), path, "an alias that contains itself")
            return pairs
        self.merged[node] = None  # in work
        self._refuse_duplicates(node, path)
        pairs = {}
        for key_node, value_node in node.value:
            if key_node.tag == MERGE_TAG:
                bases = value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
                for base in reversed(bases):
                    if not isinstance(base, yaml.MappingNode):
                        raise problem(self._at(key_node), (*path, "<<"), "takes keys with values, or a list of such")
                    pairs |= self._merge(base, path)
        for key_node, value_node in node.value:
            if key_node.tag != MERGE_TAG:
                pairs[self._read_key(key_node, path)] = (key_node, value_node)
        self.merged[node] = pairs
        return pairs

    def _refuse_duplicates(self, node: yaml.MappingNode, path: KeyPath) -> None:
        seen: dict[str, int] = {}
        for key_node, _ in node.value:
            key = self._read_key(key_node, path)
            line = key_node.start_mark.line + 1
            if key in seen:
                where = Location(self.file, line)
                raise problem(where, (*path, key), f"written twice, first in line {seen[key]}", "keep one of the two")
            seen[key] = line

    def _read_key(self, node: yaml.Node, path: KeyPath) -> str:
        """Keys stay as written: `1`, `on` and `sm_90` are names, not numbers or truth values."""
        if not isinstance(node, yaml.ScalarNode):
            raise problem(self._at(node), path, "a key must be a word or a number")
        return str(node.value)

    def _read_scalar(self, node: yaml.Node, path: KeyPath) -> Any:
        if node.tag in NUMBER_TAGS and (":" in node.value or OCTAL.fullmatch(node.value)):
            base = "60" if ":" in node.value else "8"
            hint = "put text in quotes; a range is 1..20" if base == "60" else "write it without the leading 0"
            raise problem(self._at(node), path, f"YAML reads '{node.value}' as a number in base {base}", hint)
        try:
            value = self.loader.construct_object(node)
            if isinstance(value, int) and abs(value) > MAX_INTEGER:
                raise ValueError("beyond 64 bits")
            return value
        except (ValueError, OverflowError) as error:
            raise problem(
                self._at(node), path, f"'{node.value}' cannot be read: {error}", "put it in quotes"
            ) from error

    def _at(self, node: yaml.Node) -> Location:
        return Location(self.file, node.start_mark.line + 1)


def _sentence(error: yaml.MarkedYAMLError) -> str:
    return ", ".join(part for part in (error.context, error.problem) if part)


def _yaml_hint(text: str, line: int) -> str | None:
    lines = text.splitlines()
    if line <= len(lines) and "\t" in lines[line - 1]:
        return "indent with spaces, not tabs"
    return None
