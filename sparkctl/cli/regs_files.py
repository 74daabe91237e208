"""`sparkctl regs FILE…`: any CUDA source, saved log or object; and what-ifs of launches."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sparkctl.errors import UsageError

if TYPE_CHECKING:
    from sparkctl.cli.options import CliContext
    from sparkctl.workflows.regs_inputs import FileOptions
    from sparkctl.workflows.regs_model import WhatIf

MOST_THREADS = 1024
MOST_BYTES = 1 << 20
MOST_BLOCKS = 2**31 - 1


def files_among(arguments: Sequence[str]) -> tuple[Path, ...]:
    """The arguments as files, none of them if they are kernels. UsageError for some of each."""
    from sparkctl.workflows.regs_inputs import is_file_name

    files = [text for text in arguments if is_file_name(text)]
    if files and len(files) < len(arguments):
        other = next(text for text in arguments if text not in files)
        raise UsageError(f"{files[0]} is a file and {other} a kernel", hint="one call for files, one for kernels")
    return tuple(Path(text) for text in files)


def file_options(
    cli: CliContext, arch: str | None, block: int | None, smem: int | None, nvcc_options: Sequence[str] | None
) -> FileOptions:
    """What is given; the archs of sources are this machine's, else sm_90."""
    from sparkctl.build import choose_archs
    from sparkctl.registry import find_project
    from sparkctl.toolchain import find_toolchain
    from sparkctl.workflows.regs_inputs import FileOptions

    toolchain = find_toolchain(environ=os.environ)
    chosen = choose_archs(arch, toolchain) if arch is not None or toolchain.nvcc else ()
    try:
        csrc = find_project(cli.project) / "csrc"
    except UsageError:
        if cli.project is not None:
            raise
        csrc = None
    return FileOptions(
        archs=chosen if arch is not None else None,
        default=chosen,
        block_threads=block,
        dynamic_smem_bytes=smem or 0,
        nvcc=tuple(nvcc_options or ()),
        include=(csrc,) if csrc is not None and csrc.is_dir() else (),
    )


def refuse_for_files(given: dict[str, object]) -> None:
    """UsageError for an option that speaks of kernels of a project."""
    for name, value in given.items():
        if value:
            raise UsageError(f"{name} is for kernels of a project, not for a file", hint=f"leave out {name}")


def what_if(block: int | None, smem: int | None, grid: int | None, gpu: str | None) -> WhatIf:
    """UsageError for a launch that no GPU takes, and for --gpu without --grid."""
    from sparkctl.workflows.regs_model import Grid, WhatIf

    for name, value, least, most in (
        ("--block", block, 1, MOST_THREADS),
        ("--smem", smem, 0, MOST_BYTES),
        ("--grid", grid, 1, MOST_BLOCKS),
    ):
        if value is not None and not least <= value <= most:
            raise UsageError(f"{name} {value}: not accepted", hint=f"{least} to {most}")
    if grid is None and gpu is not None:
        raise UsageError("--gpu says where a --grid runs", hint="--grid BLOCKS")
    return WhatIf(block, smem, None if grid is None else Grid(grid, *_sms(gpu)))


def _sms(gpu: str | None) -> tuple[str, int, str]:
    """(name, SMs, compute capability) of the GPU that was named, else of this machine's."""
    from sparkctl.bench.gpus import find_gpu, match_gpu
    from sparkctl.toolchain import find_devices

    if gpu is not None:
        spec = find_gpu(gpu)
        return spec.name, spec.sm_count, spec.arch.capability
    for device in find_devices():
        if (known := match_gpu(device.name)) is not None:
            return known.name, known.sm_count, known.arch.capability
    raise UsageError("--grid: waves depend on the GPU's SMs", hint="name one: --gpu H200")
