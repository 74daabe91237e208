"""The library and the size of the device that a tensor lies on."""

from __future__ import annotations

import functools

from sparkctl.arch import Arch
from sparkctl.runtime import Library, find_library_folder, load_library

EMULATED_SM_COUNT = 132  # an H200's, so that the emulator plans the splits that the GPU would


@functools.cache
def default_library(device: str) -> Library:
    """The library for a torch device: its arch's for "cuda:N", the emulator's for "cpu"."""
    import torch

    if not device.startswith("cuda"):
        return load_library(find_library_folder("emulator"))
    major, minor = torch.cuda.get_device_capability(device)
    return load_library(find_library_folder("cuda", Arch(major, minor)))


@functools.cache
def sm_count(device: str) -> int:
    """Streaming multiprocessors of a torch device; the emulator counts as an H200."""
    import torch

    if not device.startswith("cuda"):
        return EMULATED_SM_COUNT
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
