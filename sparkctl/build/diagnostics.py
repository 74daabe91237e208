"""Compilers' errors as data: which file, which line, what. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from posixpath import normpath

_FORMS = (
    # nvcc's front end: csrc/a.cu(12): error: identifier "x" is undefined
    re.compile(r"(?P<file>[^\s(][^(]*)\((?P<line>\d+)\): (?:catastrophic )?error(?: #\S+)?: (?P<text>.+)"),
    # g++, and the preprocessor under nvcc: csrc/a.cu:12:5: fatal error: no_such.h: No such file or directory
    re.compile(r"(?P<file>[^\s:][^:]*):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<text>.+)"),
    # Stages that know no line of the source: ptxas error   : Entry function 'f' uses too much shared data
    re.compile(r"(?P<text>(?:ptxas|nvcc|nvlink|cicc|fatbinary)\b.*?\b(?:error|fatal)\s*: .+)"),
    re.compile(r"(?:.*/)?(?P<text>ld(?:\.\w+)?: .+|.+: undefined reference to .+)"),
)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error of a compiler; without file and line where the stage that failed knows none."""

    file: str | None
    line: int | None
    text: str

    def __str__(self) -> str:
        return self.text if self.file is None else f"{self.file}:{self.line}: {self.text}"


def parse_diagnostics(text: str) -> tuple[Diagnostic, ...]:
    """The errors in what compilers printed, in order, each once: variants of one source repeat them."""
    found: dict[Diagnostic, None] = {}
    for line in text.splitlines():
        match = next((match for form in _FORMS if (match := form.fullmatch(line.strip()))), None)
        if match is None:
            continue
        groups = match.groupdict()
        file = normpath(groups["file"]) if groups.get("file") else None
        number = int(groups["line"]) if file else None
        found.setdefault(Diagnostic(file, number, re.sub(r"\s+", " ", groups["text"])))
    return tuple(found)
