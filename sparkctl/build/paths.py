"""How commands spell paths, so that clones in different folders and toolkits elsewhere share cache entries."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path

from sparkctl.errors import MissingTool
from sparkctl.toolchain import Toolchain

LINKS_NAME = ".links"


@dataclass(frozen=True, slots=True)
class Paths:
    """Inside the project: relative to its root. Inside a toolkit or package: through a symlink in the build folder."""

    root: Path
    links: tuple[tuple[Path, Path], ...]  # (symlink, the folder it stands for)

    def text(self, path: Path) -> str:
        """As commands spell it; they run in the root."""
        for link, target in self.links:
            if path.is_relative_to(target):
                path = link / path.relative_to(target)
                break
        return path_text(path, self.root)


def path_text(path: Path, root: Path) -> str:
    """Relative to `root` if it lies inside."""
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def plan_paths(toolchain: Toolchain, *, root: Path, build_root: Path, csrc: Path | None = None) -> Paths:
    """The toolkit's link is named by its content, so that moving it changes no command.

    `csrc` is sparkctl's, for a project that compiles with it.
    """
    folder = build_root / LINKS_NAME
    links = [(folder / "tvm_ffi", tvm_folder())]
    if toolchain.nvcc:
        links.append((folder / f"toolkit-{toolchain.nvcc.identity[:8]}", toolchain.nvcc.root))
    elif toolchain.cuda_include_dirs:
        links.append((folder / "toolkit-headers", toolchain.cuda_include_dirs[0].parent))
    if csrc is not None:
        links.append((folder / "csrc", csrc))
    return Paths(root, tuple(links))


def make_links(paths: Paths) -> None:
    """Create the symlinks, or point them to where the folders are now."""
    for link, target in paths.links:
        try:
            if link.readlink() == target:
                continue
        except OSError:
            pass
        link.parent.mkdir(parents=True, exist_ok=True)
        draft = link.with_name(f"{link.name}.{os.getpid()}.tmp")
        draft.unlink(missing_ok=True)
        draft.symlink_to(target, target_is_directory=True)
        draft.replace(link)


def tvm_folder() -> Path:
    """tvm-ffi's package, found without importing it."""
    spec = importlib.util.find_spec("tvm_ffi")
    if spec is None or not spec.submodule_search_locations:
        raise MissingTool("apache-tvm-ffi is not installed", hint="pip install apache-tvm-ffi")
    return Path(next(iter(spec.submodule_search_locations)))


def tvm_include_dirs() -> tuple[Path, ...]:
    """tvm-ffi's headers."""
    candidates = (tvm_folder() / "include", tvm_folder() / "3rdparty" / "dlpack" / "include")
    return tuple(candidate for candidate in candidates if candidate.is_dir())
