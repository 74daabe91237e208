"""The commands that repeat a test run, or one case of it, under the same conditions."""

from __future__ import annotations

import shlex

from sparkctl.registry import Variant
from sparkctl.workflows.suite import SuiteOptions, SuiteReport


def rerun_command(report: SuiteReport, variant: Variant, case_id: str) -> str:
    """The command that reruns one case of one variant under the same conditions, and nothing else."""
    return shlex.join(["sparkctl", "test", variant.name, "-k", case_id, *conditions(report.options)])


def repeat_command(report: SuiteReport) -> str:
    """The command that repeats the whole run."""
    options = report.options
    words = ["sparkctl", "test", *options.patterns]
    for axis, values in options.where.items():
        words += ["--where", f"{axis}={','.join(values)}"]
    if options.groups:
        words += ["--group", ",".join(map(str, options.groups))]
    if options.expression:
        words += ["-k", options.expression]
    return shlex.join([*words, *conditions(options)])


def conditions(options: SuiteOptions) -> list[str]:
    """The options that say under which conditions cases run."""
    words: list[str] = []
    if options.project:
        words += ["--project", str(options.project)]
    if options.backend != "auto":
        words += ["--backend", options.backend]
    if options.arch:
        words += ["--arch", options.arch.name]
    if options.profile != "release":
        words += ["--profile", options.profile]
    for name, value in options.sets.items():
        words += ["--set", f"{name}={value}"]
    if options.runner:
        words.append("--runner")
    if options.sanitizer:
        words += ["--sanitize", options.sanitizer]
    if options.full:
        words.append("--full")
    if options.seed:
        words += ["--seed", str(options.seed)]
    if options.repeat > 1:
        words += ["--repeat", str(options.repeat)]
    for option, mode in (("--schedule", options.schedule), ("--async-mode", options.async_mode)):
        if mode:
            words += [option, mode]
    return words
