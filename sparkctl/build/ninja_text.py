"""Writes the ninja file: every word quoted for the shell, then for ninja. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sparkctl.build.commands import OBJECTS
from sparkctl.build.model import Edge, Link
from sparkctl.errors import UsageError

LAUNCHER = '${SPARKCTL_CCACHE:+"$SPARKCTL_CCACHE"}'  # from the environment: a cache that comes or goes rebuilds nothing
LINK_NAME = "link"
RUNNER_LINK_NAME = "link-runner"


@dataclass(frozen=True, slots=True)
class NinjaFile:
    """What goes into one build.ninja."""

    folder: str  # for ninja's own log
    edges: Sequence[Edge]  # in the order to start them
    salts: Mapping[str, str]  # edge name -> stands for the content of its inputs
    heavy: frozenset[str]  # edges that may not all run at once
    heavy_depth: int
    links: Sequence[Link]


def ninja_text(file: NinjaFile) -> str:
    """The whole file."""
    lines = [
        "# Written by sparkctl build.",
        "ninja_required_version = 1.10",
        f"builddir = {escape_value(file.folder)}",
        "pool heavy",
        f"  depth = {file.heavy_depth}",
        "rule compile",
        "  command = $sh",
        "  description = $name",
        "  deps = gcc",
        "  depfile = $out.d",
        "rule link",
        "  command = $sh",
        "  description = $name",
        "  rspfile = $out.rsp",
        "  rspfile_content = $in",
    ]
    for edge in file.edges:
        lines += _compile_lines(edge, file.salts[edge.name], edge.name in file.heavy)
    for link in file.links:
        lines += _link_lines(link, file.edges)
    taken = {edge.name for link in file.links for edge in link.taken(file.edges)}
    alone = [edge.output for edge in file.edges if edge.name not in taken]
    lines.append(f"default {' '.join(map(escape_path, [*(link.output for link in file.links), *alone]))}")
    return "\n".join(lines) + "\n"


def compile_shell(edge: Edge, salt: str) -> str:
    """The shell line of one edge: an error is shown, and leaves no object or log behind."""
    out, depfile, stats = (shlex.quote(text) for text in (edge.output, edge.depfile, edge.stats))
    command = (
        f"true > {stats}; SPARKCTL_EDGE={shlex.quote(edge.name)} SPARKCTL_INPUTS={shlex.quote(salt)} "
        f"CCACHE_STATSLOG={stats} {LAUNCHER} {shlex.join(edge.argv)}"
    )
    tidy = f"{{ ! grep -qs tmpxft_ {depfile} || sed -i 's/[^ ]*tmpxft_[^ ]*//g' {depfile}; }}"
    if edge.log is None:
        return f"{command} && {tidy} || {{ rc=$?; rm -f {out}; exit $rc; }}"
    log = shlex.quote(edge.log)
    if any(word.startswith(("-Xptxas=-v", "-Xptxas=--verbose")) for word in edge.argv):
        tidy += f" && {{ test -s {log} || {{ echo 'the ptxas log is empty: is the disk full?' >&2; false; }}; }}"
    return f"{command} 2> {log} && {tidy} || {{ rc=$?; cat {log} >&2; rm -f {log} {out}; exit $rc; }}"


def link_shell(link: Link, objects: Sequence[str] | None = None) -> str:
    """The shell line of a link: its output is replaced whole, so a process that has loaded it keeps the old one.

    With `objects` they are spelled out; ninja gives them in a response file.
    """
    out, target = shlex.quote(_draft(link)), shlex.quote(link.output)
    command = shlex.join(link_words(link, objects))
    return f"SPARKCTL_EDGE={link.name} {command} && mv -f {out} {target} || {{ rc=$?; rm -f {out}; exit $rc; }}"


def link_words(link: Link, objects: Sequence[str] | None = None) -> tuple[str, ...]:
    """The link as it runs. ninja leaves the response file there when it fails."""
    response = f"{link.output}.rsp"
    places = {
        "{out}": [_draft(link)],
        "@{objects}": [f"@{response}"] if objects is None else objects,
        OBJECTS: [f"--options-file={response}"] if objects is None else objects,
    }
    return tuple(other for word in link.argv for other in places.get(word, [word]))


def escape_path(path: str) -> str:
    """A path in a build statement. UsageError for a `|`, which ninja cannot spell."""
    if "|" in path:
        raise UsageError(f"ninja cannot build a path with '|' in it: {path}")
    return path.replace("$", "$$").replace(" ", "$ ").replace(":", "$:")


def escape_value(text: str) -> str:
    """The value of a variable; a leading space would be lost."""
    escaped = text.replace("$", "$$")
    return f"$ {escaped[1:]}" if escaped.startswith(" ") else escaped


def _draft(link: Link) -> str:
    return f"{link.output}.tmp"


def _compile_lines(edge: Edge, salt: str, heavy: bool) -> Iterable[str]:
    log = f" | {escape_path(edge.log)}" if edge.log else ""
    yield f"build {escape_path(edge.output)}{log}: compile {escape_path(edge.source)}"
    yield f"  sh = {escape_value(compile_shell(edge, salt))}"
    yield f"  name = {escape_value(edge.name)}"
    if heavy:
        yield "  pool = heavy"


def _link_lines(link: Link, edges: Iterable[Edge]) -> Iterable[str]:
    objects = " ".join(map(escape_path, link.objects(edges)))
    yield f"build {escape_path(link.output)}: link {objects}"
    yield f"  sh = {escape_value(link_shell(link))}"
    yield f"  name = {link.name}"
