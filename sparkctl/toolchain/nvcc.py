"""Finds nvcc and the toolkit behind it, and asks it what it can compile for."""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sparkctl.arch import Arch
from sparkctl.errors import MissingTool, SparkctlError, UsageError
from sparkctl.toolchain.memory import ProbeMemory, file_identity
from sparkctl.toolchain.process import run_tool

WHEELS_HINT = "pip install 'sparkctl[toolchain]'"
PROBE_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Nvcc:
    """A CUDA compiler and the toolkit that it belongs to."""

    path: Path  # as it is called; may be a script
    root: Path  # the toolkit: real path of nvcc's own TOP
    version: str  # "13.0.88"
    source: str  # "--nvcc", "SPARKCTL_NVCC", "CUDA_HOME", "CUDA_PATH", "PATH" or "wheels"
    reason: str  # why this one won: what is stronger and was not there
    include_dirs: tuple[Path, ...]
    library_dirs: tuple[Path, ...]
    gpu_codes: tuple[str, ...]  # ("sm_75", ...): without a and f suffixes
    plain: bool  # `path` adds nothing to the toolkit's own nvcc
    identity: str  # hash over nvcc, cicc, ptxas, cudafe++, fatbinary and how nvcc calls them
    passed_over: tuple[str, ...] = ()  # what was set and holds no nvcc


def find_nvcc(nvcc: str | None, environ: Mapping[str, str], memory: ProbeMemory) -> Nvcc | None:
    """The first nvcc in the documented order, or None. A named one that does not work is an error."""
    if nvcc is not None and not nvcc.strip():
        raise UsageError("--nvcc names nothing", hint="name an nvcc, or leave the option out")
    absent: list[str] = []
    passed_over: list[str] = []
    for source, path, named in _candidates(nvcc, environ):
        if path is None:
            absent.append(f"{source}: none" if source == "PATH" else f"{source} not set")
        elif path.is_file():
            return replace(_probe(path, source, memory), reason="; ".join(absent), passed_over=tuple(passed_over))
        elif named:
            hint = f"correct {source}, or unset it to use the next one"
            raise MissingTool(f"{source} names {path}, which is not there", hint=hint)
        else:
            passed_over.append(f"{source}: no {path}")
            absent.append(passed_over[-1])
    return None


def wheels_root() -> Path | None:
    """`site-packages/nvidia/cu13` of this Python, or None."""
    folders = dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *sys.path])
    roots = (Path(folder) / "nvidia" / "cu13" for folder in folders if folder)
    return next((root for root in roots if (root / "include").is_dir()), None)


def require_supported(nvcc: Nvcc, arch: Arch, memory: ProbeMemory) -> None:
    """Raise UsageError if this nvcc cannot compile for `arch`; an a or f suffix is settled by a probe compile."""
    base = f"sm_{arch.major}{arch.minor}"
    if base not in nvcc.gpu_codes:
        known = ", ".join(nvcc.gpu_codes)
        raise UsageError(f"nvcc {nvcc.version} cannot compile for {arch.name}; it knows {known}")
    if arch.suffix and not _suffix_compiles(nvcc, arch, memory):
        raise UsageError(f"nvcc {nvcc.version} cannot compile for {arch.name}", hint=f"it does compile for {base}")


def _candidates(nvcc: str | None, environ: Mapping[str, str]) -> Iterator[tuple[str, Path | None, bool]]:
    """(source, path if the source names one, whether the user named this very file), strongest first."""
    if nvcc:
        yield "--nvcc", _as_program(nvcc, environ), True
    chosen = environ.get("SPARKCTL_NVCC")
    yield "SPARKCTL_NVCC", _as_program(chosen, environ) if chosen else None, True
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        home = environ.get(variable)
        yield variable, Path(home) / "bin" / "nvcc" if home else None, False
    on_path = shutil.which("nvcc", path=environ.get("PATH", ""))
    yield "PATH", Path(on_path).absolute() if on_path else None, False
    if wheels := wheels_root():
        yield "wheels", wheels / "bin" / "nvcc", False


def _as_program(text: str, environ: Mapping[str, str]) -> Path:
    if "/" not in text and (found := shutil.which(text, path=environ.get("PATH", ""))):
        return Path(found)
    return Path(text).expanduser().absolute()


def _probe(path: Path, source: str, memory: ProbeMemory) -> Nvcc:
    key = f"nvcc|{path}|{file_identity(path)}"
    facts = memory.recall(key)
    if facts is None or not _still_true(facts):
        facts = _ask(path, source)
        memory.remember(key, facts)
    root = Path(facts["root"])
    return Nvcc(
        path=path,
        root=root,
        version=facts["version"],
        source=source,
        reason="",
        include_dirs=tuple(d for d in (root / "include", root / "include" / "cccl") if d.is_dir()),
        library_dirs=tuple(d for d in (root / "lib64", root / "lib") if d.is_dir()),
        gpu_codes=tuple(facts["gpu_codes"]),
        plain=facts["plain"],
        identity=facts["identity"],
    )


def _still_true(facts: dict[str, Any]) -> bool:
    """The programs behind nvcc are the files that were asked (a script may point elsewhere by now)."""
    try:
        return all(file_identity(Path(path)) == identity for path, identity in facts["programs"].items())
    except (OSError, KeyError, AttributeError):
        return False


def _ask(path: Path, source: str) -> dict[str, Any]:
    try:
        release = run_tool([path, "--version"], timeout=PROBE_TIMEOUT_S).stdout
        stages = _dry_run(path)
        codes = run_tool([path, "--list-gpu-code"], timeout=PROBE_TIMEOUT_S).stdout.split()
    except SparkctlError as error:
        raise _wrong_program(source, path, f"does not work: {error.message}") from error
    version = re.search(r"release [0-9.]+, V([0-9.]+)", release)
    top = re.search(r"^#\$ TOP=(.*)$", stages, re.MULTILINE)
    if version is None or top is None:
        raise _wrong_program(source, path, "is not nvcc")
    root = Path(top[1].strip()).resolve()
    programs = [root / "bin" / name for name in ("nvcc", "ptxas", "cudafe++", "fatbinary")]
    programs.append(root / "nvvm" / "bin" / "cicc")
    present = [program for program in programs if program.is_file()]
    return {
        "version": version[1],
        "root": str(root),
        "plain": _adds_nothing(path, root, stages),
        "gpu_codes": codes,
        "programs": {str(program): file_identity(program) for program in present},
        "identity": _identity(present, _commands(stages, root)),
    }


def _wrong_program(source: str, path: Path, what: str) -> MissingTool:
    """The next source is not taken instead, so what helps depends on the source."""
    if source == "wheels":
        return MissingTool(f"the wheels hold {path}, which {what}", hint=WHEELS_HINT)
    another = (
        "name another in SPARKCTL_NVCC" if source == "PATH" else f"correct {source}, or unset it to use the next one"
    )
    return MissingTool(f"{source} names {path}, which {what}", hint=another)


def _identity(programs: list[Path], commands: list[str]) -> str:
    """The stages' command lines tell toolkits apart that hold the same programs and keep their headers elsewhere."""
    text = "\n".join([hash_files(programs), *commands])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _dry_run(path: Path) -> str:
    words = ["--dryrun", "-x", "cu", "-c", "/dev/null", "-o", "/dev/null"]
    return run_tool([str(path), *words], timeout=PROBE_TIMEOUT_S).stderr


def _adds_nothing(path: Path, root: Path, stages: str) -> bool:
    """Whether `path` is the toolkit's own nvcc, or a script that calls it with no option of its own."""
    real = root / "bin" / "nvcc"
    if path.resolve() == real:
        return True
    try:
        return _commands(stages, root) == _commands(_dry_run(real), root)
    except SparkctlError:
        return False


def _commands(stages: str, root: Path) -> list[str]:
    """The dry run's commands without what differs between two calls: process ids and the toolkit's spelling."""
    top = re.search(r"^#\$ TOP=(.*)$", stages, re.MULTILINE)
    spelled = top[1].strip() if top else str(root)
    lines = [line for line in stages.splitlines() if line.startswith("#$ ") and not re.match(r"#\$ \w+=", line)]
    return [re.sub(r"tmpxft_[0-9a-f]+_", "tmpxft_", line.replace(spelled, "TOP")) for line in lines]


def hash_files(paths: list[Path]) -> str:
    """Hex digest over the files' contents, in order."""
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        with path.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def _suffix_compiles(nvcc: Nvcc, arch: Arch, memory: ProbeMemory) -> bool:
    key = f"suffix|{nvcc.identity}|{arch.name}"
    known = memory.recall(key)
    if isinstance(known, bool):
        return known
    with tempfile.TemporaryDirectory(prefix="sparkctl-") as folder:
        source = Path(folder) / "probe.cu"
        source.write_text("__global__ void probe() {}\n", encoding="utf-8")
        command = [str(nvcc.path), "-cubin", *arch.gencode[:1], str(source), "-o", f"{source}.cubin"]
        works = run_tool(command, timeout=PROBE_TIMEOUT_S, check=False).returncode == 0
    memory.remember(key, works)
    return works
