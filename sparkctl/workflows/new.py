"""`sparkctl new`: a kernel's source, cases and entry that build and pass as they are, in one piece or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sparkctl.build.state import write_text
from sparkctl.errors import UsageError, WorkFailed
from sparkctl.registry import Kernel, Registry
from sparkctl.registry.assemble_kernel import NAME
from sparkctl.registry.load import REGISTRY_NAME, find_project, load_registry, parse_registry
from sparkctl.registry.model import Flag
from sparkctl.registry.suggest import did_you_mean
from sparkctl.registry.tree import HEADERS
from sparkctl.testing.cases import has_cases
from sparkctl.workflows.init_model import FAMILY
from sparkctl.workflows.new_text import (
    copied_entry,
    own_cases,
    own_entry,
    own_source,
    project_text,
    with_emulator,
    with_entry,
)


@dataclass(frozen=True, slots=True)
class NewOptions:
    """`family` None or `own` is a kernel with cases in Python; any other a copy of a kernel of that family."""

    name: str
    family: str | None = None
    project: Path | None = None  # else the flags.yaml of the current folder or above; else one is written here
    here: Path = Path()


@dataclass(frozen=True, slots=True)
class NewReport:
    """What was written; `copied` names the kernel that was taken as the start."""

    name: str
    registry: Path
    registry_made: bool
    emulator_added: bool
    files: tuple[Path, ...]
    copied: str | None = None


@dataclass(frozen=True, slots=True)
class _Written:
    """The files to be, and the text of flags.yaml."""

    registry: Path
    text: str
    files: Mapping[Path, str]
    emulator_added: bool = False
    copied: str | None = None


def new_kernel(options: NewOptions) -> NewReport:
    """Write the files, flags.yaml last.

    Raises UsageError for a name that is none or taken, a family without a kernel to start from, a file that is there,
    or where flags.yaml would be wrong with the new entry; WorkFailed where something cannot be written. Nothing of it
    is left behind then.
    """
    if not NAME.fullmatch(options.name):
        raise UsageError(
            f"{options.name!r} is no kernel's name", hint="letters, digits and _, not starting with a digit"
        )
    root = _project_of(options)
    registry = None if root is None else load_registry(root)
    if registry is not None and options.name in registry.kernels:
        taken = registry.kernels[options.name].location
        raise UsageError(f"{taken}: there is a kernel '{options.name}'", hint="choose another name")
    if options.family is None or options.family == FAMILY:
        written = _own(options, registry)
    else:
        written = _copy(options, registry)
    for path in written.files:
        if path.exists() or path.is_symlink():
            raise UsageError(f"{path} is there already", hint="choose another name, or move the file away")
    _write(written, options.name)
    return NewReport(
        options.name,
        written.registry,
        registry is None,
        written.emulator_added,
        tuple(written.files),
        written.copied,
    )


def _project_of(options: NewOptions) -> Path | None:
    """The project's folder; None where there is no flags.yaml yet. Never sparkctl's own, unless it was asked for."""
    if options.project is not None:
        return find_project(options.project)
    here = options.here.resolve()
    for folder in (here, *here.parents):
        if (folder / REGISTRY_NAME).exists() or (folder / REGISTRY_NAME).is_symlink():
            return find_project(folder)
    return None


def _own(options: NewOptions, registry: Registry | None) -> _Written:
    """A source, its cases in Python, and the entry; in the current folder if that is inside the project."""
    here = options.here.resolve()
    root = here if registry is None else registry.root
    folder = here if here.is_relative_to(root) else root
    source, cases = folder / f"{options.name}.cu", folder / f"{options.name}_cases.py"
    entry = own_entry(options.name, source.relative_to(root).as_posix(), cases.relative_to(root).as_posix())
    files = {source: own_source(options.name), cases: own_cases(options.name)}
    if registry is None:
        return _Written(root / REGISTRY_NAME, project_text(entry), files)
    text = registry.path.read_text(encoding="utf-8")
    lacks = not registry.emulator and not (root / "csrc" / "emulator").is_dir()
    changed = with_entry(text, entry)
    return _Written(registry.path, with_emulator(changed) if lacks else changed, files, emulator_added=lacks)


def _copy(options: NewOptions, registry: Registry | None) -> _Written:
    """The shortest kernel of the family whose flags reach the new name, under it, tested with its cases."""
    if registry is None:
        raise UsageError(f"--family {options.family}: there is no {REGISTRY_NAME} with such a kernel here")
    members = [k for k in registry.kernels.values() if k.family == options.family and has_cases(k)]
    if not members:
        families = sorted({FAMILY, *(k.family for k in registry.kernels.values() if has_cases(k))})
        hint = did_you_mean(str(options.family), families) or f"known: {', '.join(families)}"
        raise UsageError(f"--family {options.family}: no kernel of it has cases", hint=hint)
    named = {kernel.name: _header_with(registry, kernel) for kernel in members}
    if all(named.values()):
        first = members[0]
        raise UsageError(
            f"--family {options.family}: {first.name} is named in {named[first.name]} too, "
            "a copy of its source would not do",
            hint="copy both by hand, and name the kernel whose cases it takes by cases: in flags.yaml",
        )
    members = [kernel for kernel in members if not named[kernel.name]]
    members.sort(key=lambda kernel: (registry.root / kernel.source).stat().st_size)
    start = next((k for k in members if _unreached(registry, k, options.name) is None), members[0])
    old = registry.root / start.source
    source = old.with_name(f"{options.name}.cu")
    cases = start.cases or start.name
    if start.cases_file is not None:
        cases = start.cases_file.relative_to(registry.root).as_posix()
    text = registry.path.read_text(encoding="utf-8")
    entry = copied_entry(
        text,
        start.name,
        name=options.name,
        source=source.relative_to(registry.root).as_posix(),
        cases=cases,
    )
    if flag := _unreached(registry, start, options.name):
        raise UsageError(
            f"{flag.location}: flag '{flag.name}' reaches {start.name} and not {options.name}",
            hint=f"add {options.name} to its affects, or choose a name that one of {', '.join(flag.affects)} matches",
        )
    files = {source: old.read_text(encoding="utf-8").replace(start.name, options.name)}
    return _Written(registry.path, with_entry(text, entry), files, copied=start.name)


def _header_with(registry: Registry, kernel: Kernel) -> str | None:
    """A header beside its source that has the kernel's name: what it names is not the source's alone to rename."""
    source = registry.root / kernel.source
    headers = sorted(path for path in source.parent.iterdir() if path.suffix in HEADERS and path.is_file())
    found = (path for path in headers if kernel.name in path.read_text(encoding="utf-8", errors="replace"))
    return next((path.relative_to(registry.root).as_posix() for path in found), None)


def _unreached(registry: Registry, start: Kernel, name: str) -> Flag | None:
    """A flag that reaches the kernel that is copied by its name, and would not reach the copy."""
    return next((f for f in registry.flags.values() if f.reaches(start.name) and not f.reaches(name)), None)


def _write(written: _Written, name: str) -> None:
    """Every file new; all are taken back unless flags.yaml, the last, is in place."""
    made: list[Path] = []
    try:
        for path, text in written.files.items():
            with path.open("x", encoding="utf-8") as file:
                made.append(path)
                file.write(text)
        parse_registry(written.text, written.registry)  # it looks whether the sources are there
        write_text(written.registry.resolve(), written.text)
    except OSError as error:
        _take_back(made)
        raise WorkFailed(
            f"{error.filename or written.registry}: {error.strerror}", hint="nothing of it is written"
        ) from error
    except BaseException:
        _take_back(made)
        raise


def _take_back(made: list[Path]) -> None:
    for path in made:
        path.unlink(missing_ok=True)
