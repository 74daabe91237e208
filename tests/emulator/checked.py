"""Compiles programs of tests/emulator/broken once for each check of the emulator, and runs single cases of them."""

import hashlib
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from filelock import FileLock
from programs import CACHE, INCLUDES, ROOT

from sparkctl.build.sanitize import instrumentation, sanitizer_defines

BROKEN = Path(__file__).resolve().parent / "broken"
Check = Literal["plain", "race", "memory", "undefined"]
CHECKS: tuple[Check, ...] = ("plain", "race", "memory", "undefined")
SCHEDULES = ("ascending", "descending", "random")
COPIES = ("late", "early", "random")
FLAGS = ("-DSPARK_EMULATOR=1", "-std=c++17", "-O1", "-g1", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra")
FLAGS += ("-Werror", "-Wno-unknown-pragmas")  # unroll
_TIMEOUT_S = 60


@dataclass(frozen=True)
class Verdict:
    """How a run ended: `pass`, `fail` with the program's lines, `crash` with the signal, or `hang`."""

    end: str
    text: str


def compile_checked(source: Path, check: Check) -> Path:
    """The program with the emulator built for this check, kept in the temporary folder by a digest of its inputs."""
    folder = CACHE / _digest(source.parent, check)
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / source.stem
    with FileLock(folder / "lock"):
        if program.exists():
            return program
        common = ["g++", *FLAGS, *_defines(check), *INCLUDES]
        # The emulator comes first: of an inline function that both have, the linker keeps the one that is not watched.
        built = {
            folder / f"emulator_{file.stem}.o": ["-c", str(file)]
            for file in sorted((ROOT / "csrc" / "emulator").glob("*.cpp"))
        }
        built[folder / f"{source.stem}.o"] = [*_instrumentation(check), "-x", "c++", "-c", str(source)]
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            list(pool.map(lambda item: _compile([*common, *item[1], "-o", str(item[0])]), built.items()))
        fresh = folder / f"{source.stem}.new"
        _compile(["g++", *map(str, built), "-pthread", "-ldl", "-o", str(fresh)])
        fresh.replace(program)
    return program


def list_cases(program: Path) -> dict[str, str]:
    """`fault` or `legal` by the case's name."""
    done = subprocess.run([program, "--list"], capture_output=True, text=True, check=True)
    pairs = (line.split() for line in done.stdout.splitlines())
    return {name: kind for kind, name in pairs}


def run_checked(
    program: Path, case: str, twin: str, *, schedule: str = "ascending", copies: str = "late", seed: int = 1
) -> Verdict:
    environment = {
        **os.environ,
        "SPARKCTL_EMULATOR_SCHEDULE": schedule,
        "SPARKCTL_EMULATOR_ASYNC": copies,
        "SPARKCTL_EMULATOR_SEED": str(seed),
        "SPARKCTL_EMULATOR_THREADS": "2",
    }
    command = [str(program), case, twin]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return Verdict("hang", f"no end within {_TIMEOUT_S} s")
    if done.returncode < 0:
        return Verdict("crash", f"signal {-done.returncode}")
    if done.returncode > 1:
        return Verdict("crash", f"exit code {done.returncode}: {done.stderr.strip()}")
    if done.returncode == 1:
        return Verdict("fail", done.stdout.strip())
    assert done.stdout == "pass\n", f"{' '.join(command)}: {done.stdout}"
    return Verdict("pass", "")


def find_tag(tag: str) -> str:
    """`NAME.cu:LINE` of the one line of the broken set that carries `here: TAG`."""
    found = [
        f"{path.name}:{number}"
        for path in sorted(BROKEN.glob("*.cu"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if line.rstrip().endswith(f"here: {tag}")
    ]
    (line,) = found
    return line


def _defines(check: Check) -> tuple[str, ...]:
    sanitizer = None if check == "plain" else check
    return tuple(f"-D{name}={value}" for name, value in sanitizer_defines(sanitizer).items())


def _instrumentation(check: Check) -> tuple[str, ...]:
    """Of the program's own object; the emulator is not watched."""
    return instrumentation(None if check == "plain" else check)


def _compile(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"


def _digest(sources: Path, check: Check) -> str:
    hashed = hashlib.sha256(repr((FLAGS, _defines(check), _instrumentation(check))).encode())
    folders = [ROOT / "csrc" / name for name in ("common", "ptx", "emulator", "program", "runner")] + [sources]
    for path in sorted(path for folder in folders for path in folder.rglob("*") if path.is_file()):
        hashed.update(str(path).encode())
        hashed.update(path.read_bytes())
    return hashed.hexdigest()[:16]
