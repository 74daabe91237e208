"""Tries the compilers and the cache on one small file: what is found may still not work."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkctl.arch import Arch
from sparkctl.toolchain.host import HostCompiler
from sparkctl.toolchain.nvcc import Nvcc
from sparkctl.toolchain.process import run_tool

TIMEOUT_S = 120.0
# The headers of CUDA's half types reach into the toolkit's other packages: a mixture of versions fails here.
KERNEL = """\
#include <cuda_bf16.h>
__global__ void trial(__nv_bfloat16* data) { data[0] = __float2bfloat16(1.0f); }
"""
SMALL_KERNEL = "__global__ void trial(float* data) { data[0] = 1.0f; }\n"  # for the cache: quick to compile
HOST = "#include <cuda_bf16.h>\nint trial() { return int(sizeof(__nv_bfloat16)); }\n"
_STATS, _LOG = "trial.stats", "trial.log"


@dataclass(frozen=True, slots=True)
class CacheTrial:
    """What ccache counted when the same command ran twice over an empty cache."""

    first: frozenset[str]
    second: frozenset[str]
    remote_fault: str | None  # what the remote storage, or the way to it, said

    @property
    def is_hit(self) -> bool:
        """The second came from the cache."""
        return "direct_cache_hit" in self.second or "preprocessed_cache_hit" in self.second


def try_nvcc(nvcc: Nvcc, host: HostCompiler, arch: Arch, folder: Path, environ: Mapping[str, str]) -> str | None:
    """What nvcc complains of when it compiles a kernel for `arch`, or None. Leaves the object in `folder`."""
    (folder / "trial.cu").write_text(KERNEL, encoding="utf-8")
    return _complaint(nvcc_words(nvcc, host, arch), folder, environ)


def nvcc_words(nvcc: Nvcc, host: HostCompiler, arch: Arch) -> tuple[str, ...]:
    """The command of the trial, close to that of a build."""
    chosen = (f"-ccbin={host.path}",) if host.source == "CXX" else ()
    words = ("-x", "cu", "-c", "trial.cu", "-o", "trial.o", "-std=c++17", "-Xptxas=-v", *arch.gencode)
    return (str(nvcc.path), *chosen, *words)


def try_host(host: HostCompiler, includes: Sequence[Path], folder: Path, environ: Mapping[str, str]) -> str | None:
    """What g++ complains of when it reads CUDA's headers, as for the emulator, or None."""
    (folder / "trial.cpp").write_text(HOST, encoding="utf-8")
    folders = [word for include in includes for word in ("-isystem", str(include))]
    words = [str(host.path), "-std=c++17", "-fsyntax-only", *folders, "trial.cpp"]
    return _complaint(words, folder, environ)


def try_cache(
    ccache: Path, command: Sequence[str], folder: Path, environ: Mapping[str, str], *, remote: str = ""
) -> CacheTrial:
    """Run `command` twice through ccache, with a cache of its own in `folder`; a `remote` storage is only read.

    WorkFailed where ccache or the compiler fails.
    """
    settings = {
        **{name: value for name, value in environ.items() if not name.startswith("CCACHE_")},
        "CCACHE_DIR": str(folder / "trial-cache"),
        "CCACHE_CONFIGPATH": str(folder / "trial.conf"),  # nobody's settings
        "CCACHE_NOHASHDIR": "1",
        "CCACHE_STATSLOG": str(folder / _STATS),
        "CCACHE_LOGFILE": str(folder / _LOG),
        "CCACHE_REMOTE_STORAGE": remote,
        **({"CCACHE_READONLY": "1"} if remote else {}),
    }
    counted = []
    (folder / _LOG).unlink(missing_ok=True)
    for _ in range(1 if remote else 2):
        (folder / _STATS).unlink(missing_ok=True)
        run_tool([ccache, *command], cwd=folder, env=settings, timeout=TIMEOUT_S)
        counted.append(frozenset((folder / _STATS).read_text(encoding="utf-8", errors="replace").split()))
    return CacheTrial(counted[0], counted[-1], _remote_fault(folder / _LOG))


def _remote_fault(log: Path) -> str | None:
    """ccache logs the reason in one of the two lines ahead of this one; hosts and passwords stay out of it."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    marked = next((at for at, line in enumerate(lines) if "Marking remote storage backend" in line), None)
    if marked is None:
        return None
    said = (
        re.search(r"(?:error|failed|storage): (.+)$", line) for line in reversed(lines[max(0, marked - 2) : marked])
    )
    return next((match[1] for match in said if match), "for an unknown reason")


def _complaint(words: Sequence[str], folder: Path, environ: Mapping[str, str]) -> str | None:
    """The first line that speaks of an error, else the last one."""
    done = run_tool(words, cwd=folder, env={**environ, "LC_ALL": "C.UTF-8"}, timeout=TIMEOUT_S, check=False)
    if done.returncode == 0:
        return None
    lines = [line.strip() for line in done.output.splitlines() if line.strip()]
    spoken = [line for line in lines if "error" in line.lower() or "unsupported" in line.lower()]
    return (spoken or lines[-1:] or [f"exit code {done.returncode}"])[0]
