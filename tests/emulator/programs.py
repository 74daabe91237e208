"""Compiles the case programs of tests/emulator/kernels with g++ and runs single cases of them."""

import hashlib
import os
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from filelock import FileLock

from sparkctl.toolchain import find_toolchain

ROOT = Path(__file__).resolve().parents[2]
KERNELS = Path(__file__).resolve().parent / "kernels"
CUDA_INCLUDES = find_toolchain().require_cuda_headers()
CACHE = Path(tempfile.gettempdir()) / f"sparkctl-emulator-tests-{os.getuid()}"

INCLUDES = ("-I", str(ROOT / "csrc" / "emulator"), "-I", str(ROOT / "csrc"))
INCLUDES += tuple(word for folder in CUDA_INCLUDES for word in ("-I", str(folder)))
FLAGS = ("-DSPARK_EMULATOR=1", "-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror")
FLAGS += ("-Wno-unknown-pragmas",)  # unroll


@dataclass(frozen=True)
class Outcome:
    """What one case printed: its status and the values it showed."""

    code: int
    message: str  # as Status carries it, at most 247 characters
    error: str  # in full
    kernel: str
    launches: int
    raw: dict[str, tuple[int, bytes]] = field(repr=False)

    def __getitem__(self, name: str) -> np.ndarray:
        """The shown values as unsigned integers of their width."""
        width, data = self.raw[name]
        return np.frombuffer(data, dtype=f"<u{width}")

    def view(self, name: str, dtype: str) -> np.ndarray:
        return self[name].view(dtype)

    @property
    def values(self) -> bytes:
        return b"".join(data for _, data in self.raw.values())


def compile_program(name: str, extra: tuple[str, ...] = (), kernel_flags: tuple[str, ...] = ()) -> Path:
    """The program of kernels/NAME.cu with the emulator, kept in the temporary folder by a digest of its inputs.

    `extra` reaches the emulator's sources too, `kernel_flags` only the program's own.
    """
    digest = _digest((*extra, "kernel:", *kernel_flags))
    folder = CACHE / digest
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    with FileLock(folder / f"{name}.lock"):
        if not program.exists():
            objects = _compile_runtime(folder, extra)
            built = folder / f"{name}.new"
            source = KERNELS / f"{name}.cu"
            command = ["g++", *FLAGS, *extra, *kernel_flags, *INCLUDES, "-x", "c++", str(source), "-x", "none"]
            _compile([*command, *map(str, objects), "-pthread", "-o", str(built)])
            built.replace(program)
    return program


def run_case(
    program: Path,
    case: str,
    *,
    schedule: str = "ascending",
    copies: str = "late",
    seed: int = 1,
    workers: int = 2,
) -> Outcome:
    environment = {
        **os.environ,
        "SPARKCTL_EMULATOR_SCHEDULE": schedule,
        "SPARKCTL_EMULATOR_ASYNC": copies,
        "SPARKCTL_EMULATOR_SEED": str(seed),
        "SPARKCTL_EMULATOR_THREADS": str(workers),
    }
    done = subprocess.run([program, case], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{program.name} {case} ended with {done.returncode}: {done.stderr}"
    return parse_outcome(done.stdout)


def parse_outcome(text: str) -> Outcome:
    raw: dict[str, tuple[int, bytes]] = {}
    plain = {"status": "", "error": "", "kernel": "", "launches": "0"}
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "value":
            name, width, *items = rest.split()
            raw[name] = (int(width), bytes.fromhex("".join(items)))
        elif word in plain:
            plain[word] = rest
    code, _, message = plain["status"].partition(" ")
    return Outcome(int(code), message, plain["error"], plain["kernel"], int(plain["launches"]), raw)


def line_of(program: str, tag: str) -> str:
    """`NAME.cu:LINE` of the line that carries `here: TAG`."""
    lines = (KERNELS / f"{program}.cu").read_text().splitlines()
    (number,) = [i for i, line in enumerate(lines, 1) if line.rstrip().endswith(f"here: {tag}")]
    return f"{program}.cu:{number}"


def _compile_runtime(folder: Path, extra: tuple[str, ...]) -> list[Path]:
    objects = []
    with FileLock(folder / "runtime.lock"):
        for source in sorted((ROOT / "csrc" / "emulator").glob("*.cpp")):
            built = folder / f"{source.stem}.o"
            if not built.exists():
                fresh = folder / f"{source.stem}.o.new"
                _compile(["g++", *FLAGS, "-O3", *extra, *INCLUDES, "-c", str(source), "-o", str(fresh)])
                fresh.replace(built)
            objects.append(built)
    return objects


def _compile(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"


def _digest(extra: tuple[str, ...]) -> str:
    hashed = hashlib.sha256(repr((FLAGS, extra)).encode())
    folders = [ROOT / "csrc" / name for name in ("common", "ptx", "emulator")] + [KERNELS]
    for path in sorted(path for folder in folders for path in folder.rglob("*") if path.is_file()):
        hashed.update(str(path).encode())
        hashed.update(path.read_bytes())
    return hashed.hexdigest()[:16]
