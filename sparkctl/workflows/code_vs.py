"""`sass --vs` and `ptx --vs`: the code of this tree beside that of another git revision, built through one cache."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from sparkctl.build import Progress
from sparkctl.errors import SparkctlError, UsageError
from sparkctl.registry import Registry, Variant, runs_on, select_variants
from sparkctl.toolchain import Toolchain
from sparkctl.workflows.code import CodeOptions, CodeReport, CodeRow, report_code, select_code
from sparkctl.workflows.code_compare import CodeChanges, compare_reports
from sparkctl.workflows.revision import Revision, open_revision


def compare_code(
    registry: Registry,
    options: CodeOptions,
    name: str,
    *,
    toolchain: Toolchain,
    environ: Mapping[str, str] = os.environ,
    progress: Progress | None = None,
) -> CodeChanges:
    """Variants are matched by name; the revision is exported and built where it is not yet.

    Raises as report_code does, and UsageError for what is no revision.
    """
    select_code(registry, options)
    revision = open_revision(registry, name, environ)
    new = report_code(registry, options, toolchain=toolchain, environ=environ, progress=progress)
    old = _rows_there(revision, options, new, toolchain=toolchain, environ=environ, progress=progress)
    rows = tuple(compare_reports(old, new.rows))
    return CodeChanges(revision.label, revision.commit, new, rows, _gone(registry, revision, options))


def _rows_there(
    revision: Revision,
    options: CodeOptions,
    new: CodeReport,
    *,
    toolchain: Toolchain,
    environ: Mapping[str, str],
    progress: Progress | None,
) -> tuple[CodeRow, ...]:
    """The revision's rows of the variants that it has and can run, none where it has none of them."""
    then = {variant.name: variant for variant in _every(revision.registry)}
    names = dict.fromkeys(row.variant.name for row in new.rows)
    known = [name for name in names if name in then and any(runs_on(then[name], arch) for arch in options.archs)]
    if not known:
        return ()
    try:
        return report_code(
            revision.registry,
            replace(options, patterns=tuple(known), where={}, one=None),
            toolchain=toolchain,
            environ=environ,
            build_root=revision.build_root,
            progress=progress,
        ).rows
    except SparkctlError as error:
        raise type(error)(f"{revision.label}: {error.message}", hint=error.hint) from error


def _gone(registry: Registry, revision: Revision, options: CodeOptions) -> tuple[str, ...]:
    """Variants that the selection meant then and that this tree does not have."""
    try:
        then = select_variants(revision.registry, options.patterns, where=options.where)
    except UsageError:  # what was asked for is newer
        return ()
    here = {variant.name for variant in _every(registry)}
    return tuple(variant.name for variant in then if variant.name not in here)


def _every(registry: Registry) -> tuple[Variant, ...]:
    return select_variants(registry) if registry.kernels else ()
