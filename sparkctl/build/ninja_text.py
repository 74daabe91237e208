"""Writes the ninja file: every word quoted for the shell, then for ninja. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sparkctl.build.model import Edge
from sparkctl.errors import UsageError

LAUNCHER = '${SPARKCTL_CCACHE:+"$SPARKCTL_CCACHE"}'  # from the environment: a cache that comes or goes rebuilds nothing
LINK_NAME = "link"


@dataclass(frozen=True, slots=True)
class NinjaFile:
    """What goes into one build.ninja."""

    folder: str  # for ninja's own log
    edges: Sequence[Edge]  # in the order to start them
    salts: Mapping[str, str]  # edge name -> stands for the content of its inputs
    heavy: frozenset[str]  # edges that may not all run at once
    heavy_depth: int
    library: str
    link_argv: Sequence[str]


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
    lines += _link_lines(file)
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


def link_shell(link_argv: Sequence[str], library: str) -> str:
    """The shell line of the link: the library is replaced whole, so a process that has loaded it keeps the old one."""
    out, target = shlex.quote(_draft(library)), shlex.quote(library)
    command = shlex.join(link_words(link_argv, library))
    return f"SPARKCTL_EDGE={LINK_NAME} {command} && mv -f {out} {target} || {{ rc=$?; rm -f {out}; exit $rc; }}"


def link_words(link_argv: Sequence[str], library: str) -> tuple[str, ...]:
    """The link as it runs. ninja leaves the response file there when it fails."""
    places = {"{out}": _draft(library), "@{objects}": f"@{library}.rsp"}
    return tuple(places.get(word, word) for word in link_argv)


def escape_path(path: str) -> str:
    """A path in a build statement. UsageError for a `|`, which ninja cannot spell."""
    if "|" in path:
        raise UsageError(f"ninja cannot build a path with '|' in it: {path}")
    return path.replace("$", "$$").replace(" ", "$ ").replace(":", "$:")


def escape_value(text: str) -> str:
    """The value of a variable; a leading space would be lost."""
    escaped = text.replace("$", "$$")
    return f"$ {escaped[1:]}" if escaped.startswith(" ") else escaped


def _draft(library: str) -> str:
    return f"{library}.tmp"


def _compile_lines(edge: Edge, salt: str, heavy: bool) -> Iterable[str]:
    log = f" | {escape_path(edge.log)}" if edge.log else ""
    yield f"build {escape_path(edge.output)}{log}: compile {escape_path(edge.source)}"
    yield f"  sh = {escape_value(compile_shell(edge, salt))}"
    yield f"  name = {escape_value(edge.name)}"
    if heavy:
        yield "  pool = heavy"


def _link_lines(file: NinjaFile) -> Iterable[str]:
    objects = " ".join(escape_path(edge.output) for edge in sorted(file.edges, key=lambda edge: edge.output))
    yield f"build {escape_path(file.library)}: link {objects}"
    yield f"  sh = {escape_value(link_shell(file.link_argv, file.library))}"
    yield f"  name = {LINK_NAME}"
    yield f"default {escape_path(file.library)}"
