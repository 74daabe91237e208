"""The library and the size of the device that a tensor lies on."""

from __future__ import annotations

import functools
from pathlib import Path

from sparkctl.arch import Arch
from sparkctl.runtime import Library, find_library_folder, load_library
from sparkctl.runtime.manifest import MANIFEST_NAME

EMULATED_SM_COUNT = 132  # an H200's, so that the emulator plans the splits that the GPU would


def default_library(device: str) -> Library:
    """The library for a torch device: its arch's for "cuda:N", the emulator's for "cpu".

    A library that was rebuilt since the last call is loaded anew.
    """
    folder = _library_folder(device)
    try:
        manifest = (folder / MANIFEST_NAME).stat()
    except OSError:  # cleaned since
        _library_folder.cache_clear()
        folder = _library_folder(device)
        manifest = (folder / MANIFEST_NAME).stat()
    return _library_at(folder, manifest.st_mtime_ns, manifest.st_ino)


@functools.cache
def _library_folder(device: str) -> Path:
    import torch

    if not device.startswith("cuda"):
        return find_library_folder("emulator")
    major, minor = torch.cuda.get_device_capability(device)
    return find_library_folder("cuda", Arch(major, minor))


@functools.lru_cache(maxsize=16)
def _library_at(folder: Path, mtime_ns: int, inode: int) -> Library:
    return load_library(folder)


@functools.cache
def sm_count(device: str) -> int:
    """Streaming multiprocessors of a torch device; the emulator counts as an H200."""
    import torch

    if not device.startswith("cuda"):
        return EMULATED_SM_COUNT
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
