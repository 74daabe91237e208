"""What lies in a build folder, by the names that builds and reports give."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from sparkctl.build.locks import LOCK_NAME
from sparkctl.build.outputs import COMPILE_COMMANDS
from sparkctl.build.paths import LINKS_NAME

ARMS = "arms"  # libraries with other flags: arms/DIGEST is a build folder of its own
REVISIONS = "revisions"  # exported trees: revisions/COMMIT/build is a build folder of its own
RESULTS = ("regs/*/sm_*.json", "test/verdicts.json", "test/failures.json")  # saved reports, outcomes of tests
_DIGEST = re.compile(r"[0-9a-f]{12}|[0-9a-f]{40}")
DRAFT = re.compile(r"\.(removed-.+|.+\.\d+\.(tmp|tar))")  # what a killed process was writing or removing
LIBRARY = re.compile(r"(cuda|emulator)-sm_\d+[af]?-.+")
OWN_FILES = (COMPILE_COMMANDS, LINKS_NAME)
_VARIANT_FILE = re.compile(r"(.+?)\.(o|o\.stats|o\.d|ptxas|sass|ptx)")


def lock_folders(root: Path) -> Iterator[Path]:
    """The build folder, and those inside it that have a lock of their own."""
    yield root
    inner = f"{REVISIONS}/*/build"
    for pattern in (f"{ARMS}/*/{LOCK_NAME}", f"{inner}/{LOCK_NAME}", f"{inner}/{ARMS}/*/{LOCK_NAME}"):
        yield from sorted(path.parent for path in root.glob(pattern))


def library_folders(root: Path) -> Iterator[Path]:
    """One for each backend, arch and profile that was built here."""
    if root.is_dir():
        yield from sorted(path for path in root.iterdir() if LIBRARY.fullmatch(path.name))


def inner_trees(root: Path) -> Iterator[Path]:
    """Arms and revisions, and the drafts of revisions that a killed process left."""
    for parent in (root / ARMS, root / REVISIONS):
        if parent.is_dir() and not parent.is_symlink():
            names = (path for path in parent.iterdir() if _DIGEST.fullmatch(path.name) or DRAFT.fullmatch(path.name))
            yield from sorted(names)


def result_files(root: Path) -> Iterator[Path]:
    """What outlives a build: saved reports, verdicts and failures of tests."""
    for pattern in RESULTS:
        yield from sorted(root.glob(pattern))


def variant_of(file_name: str) -> str | None:
    """The variant that a file in `obj` or `code` belongs to; None for a file that is no variant's."""
    match = _VARIANT_FILE.fullmatch(file_name)
    return match[1] if match else None
