"""A built library, loaded: its manifest, its entry points through tvm-ffi and the indices of its variants."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkctl.arch import limits_for, parse_arch
from sparkctl.errors import MissingTool, SparkctlError
from sparkctl.runtime.manifest import BuiltVariant, Manifest, read_manifest

THREAD_SCHEDULES = {"ascending": 0, "descending": 1, "random": 2}
ASYNC_MODES = {"late": 0, "early": 1, "random": 2}


@dataclass(frozen=True)
class Library:
    """The entry points of one library; `function` is the cheapest way in, checked on the C++ side."""

    folder: Path
    manifest: Manifest
    module: Any  # tvm_ffi.Module
    index: dict[str, int]  # variant name -> index for the entry points

    def function(self, name: str) -> Callable[..., Any]:
        """An exported entry point: `decode`, `combine`, `stream_read`, ...; SparkctlError if it is not there."""
        try:
            return self.module.get_function(name)  # type: ignore[no-any-return]
        except (AttributeError, RuntimeError, ValueError) as error:
            raise SparkctlError(
                f"{self.folder / self.manifest.library} exports no '{name}'", hint="run sparkctl build again"
            ) from error

    def variant(self, name: str) -> BuiltVariant:
        """The record of a variant that the library holds; SparkctlError naming the command that builds it if not."""
        for variant in self.manifest.variants:
            if variant.name == name and name in self.index:
                return variant
        raise SparkctlError(
            f"{self.folder / self.manifest.library} holds no variant {name}",
            hint=f"sparkctl build {name.split('.')[0]} --arch {self.manifest.arch} --backend {self.manifest.backend}",
        )

    def configure_emulator(
        self, *, schedule: str = "ascending", async_mode: str = "late", seed: int = 0, workers: int = 0
    ) -> None:
        """Order in which threads and blocks run, when cp.async bytes land, and worker threads (0: one per core)."""
        self.function("emulator_configure")(THREAD_SCHEDULES[schedule], ASYNC_MODES[async_mode], seed, workers)

    def emulator_launch_count(self) -> int:
        """Kernels that the emulator has run in this process."""
        return int(self.function("emulator_launch_count")())

    def emulator_last_kernel(self) -> str:
        """The name of the kernel that the emulator ran last."""
        return str(self.function("emulator_last_kernel")())


_loaded: dict[tuple[Path, str], Library] = {}
_lock = threading.Lock()


def load_library(folder: Path) -> Library:
    """Load the library in a configuration's build folder, once per process and content.

    Raises SparkctlError when the folder holds none, or when the library cannot be loaded.
    """
    manifest = read_manifest(folder)
    key = (folder.resolve(), manifest.digest)
    with _lock:
        if key not in _loaded:
            _loaded[key] = _open_library(folder, manifest)
        return _loaded[key]


def _open_library(folder: Path, manifest: Manifest) -> Library:
    path = folder / manifest.library
    if not path.exists():
        raise SparkctlError(f"{path} is missing", hint="run sparkctl build again")
    try:
        module = _load_module(path, manifest.digest)
        names = [str(name) for name in module.get_function("variant_names")()]
    except (OSError, RuntimeError, AttributeError, ValueError) as error:
        raise MissingTool(
            f"{path} cannot be loaded: {error}", hint="run sparkctl build again on this machine"
        ) from error
    library = Library(folder, manifest, module, {name: index for index, name in enumerate(names)})
    if manifest.backend == "emulator":
        _limit_shared_memory(library)
    return library


def _load_module(path: Path, digest: str) -> Any:
    """The module, under a name of its own: for a path that it knows the loader returns what it loaded before."""
    import tvm_ffi

    with tempfile.TemporaryDirectory(prefix="sparkctl-") as folder:
        link = Path(folder) / f"libsparkctl-{digest[:12]}.so"
        link.symlink_to(path.resolve())
        return tvm_ffi.load_module(str(link))


def _limit_shared_memory(library: Library) -> None:
    """A block in the emulator gets the shared memory that a block of the library's arch gets."""
    limits = limits_for(parse_arch(library.manifest.arch))
    set_limits = library.function("emulator_set_shared_limits")
    set_limits(limits.smem_per_block_optin, limits.smem_per_block_static)
