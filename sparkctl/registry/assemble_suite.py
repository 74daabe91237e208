"""Suites: names and places. What a case's text says is read where cases are known, in sparkctl.bench."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sparkctl.registry.document import KeyPath
from sparkctl.registry.model import Suite
from sparkctl.registry.problems import Problems
from sparkctl.registry.schema import SuiteSpec

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")  # as typed, also in a comma list


def assemble_suites(specs: Mapping[str, SuiteSpec], problems: Problems) -> dict[str, Suite]:
    """What is wrong goes to `problems`; the result is only good if nothing did."""
    return {name: _assemble_suite(name, spec, problems) for name, spec in specs.items()}


def _assemble_suite(name: str, spec: SuiteSpec, problems: Problems) -> Suite:
    path: KeyPath = ("suites", name)
    if not NAME.fullmatch(name):
        problems.add(path, "a suite's name is letters, digits, _ . and -, starting with a letter or a digit")
    at = problems.document.location
    places = tuple(at((*path, "cases", index)) for index in range(len(spec.cases)))
    return Suite(name, spec.doc, tuple(spec.cases), places, at(path))
