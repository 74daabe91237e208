"""What the device code may include and must become: NVRTC compiles it, its copies are 16-byte cp.async past L1."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest

from sparkctl.build import DEFAULT_ARCH, ensure_built
from sparkctl.registry import Registry, find_project, load_registry, select_variants
from sparkctl.toolchain import find_toolchain, run_tool
from sparkctl.toolchain.nvcc import wheels_root

CSRC = find_project(None) / "csrc"
HOST_FOLDERS = {"bindings", "emulator", "runner"}  # no device code
ASYNC_COPY = re.compile(r"LDGSTS\S*\.BYPASS(\.LTC128B)?\.128")

# Each kernel as NVRTC sees it: its header, what it reduces by, and the macros that the build would define.
BODIES = {
    "fa_split_gqa": ("split_gqa.cuh", "reduce_split_gqa<bf16, 128, 14, 2, ContiguousRows>", 256, 14336),
    "fa_split_gqa, one stage": ("split_gqa.cuh", "reduce_split_gqa<fp16, 96, 14, 1, ContiguousRows>", 256, 5376),
    "fa_split_gqa, pages": ("split_gqa.cuh", "reduce_split_gqa<bf16, 64, 14, 2, PagedRows>", 256, 7168),
    "split_kv_mma": (
        "split_kv_mma.cuh",
        "reduce_split_kv_mma<bf16, 128, 2, 64, ContiguousRows, QFrag::resident, 8>",
        128,
        65536,
    ),
    "split_kv_mma, reload": (
        "split_kv_mma.cuh",
        "reduce_split_kv_mma<fp16, 64, 2, 64, ContiguousRows, QFrag::reload, 16>",
        128,
        32768,
    ),
    "split_kv, pages": ("split_kv.cuh", "reduce_split_kv<bf16, 64, PagedRows>", 256, 0),
}

# Kernels that are templates themselves: header, instance, params, block and dynamic shared memory.
KERNELS = {
    "prefill split_q_mma": (
        "prefill/split_q_mma.cuh",
        "attn_prefill_split_q_mma_kernel<bf16, 128, ContiguousRows>",
        "PrefillParams",
        128,
        65536,
    ),
    "prefill split_q_mma, pages": (
        "prefill/split_q_mma.cuh",
        "attn_prefill_split_q_mma_kernel<fp16, 256, PagedRows>",
        "PrefillParams",
        128,
        98304,
    ),
    "prefill split_q": (
        "prefill/split_q.cuh",
        "attn_prefill_split_q_kernel<bf16, 64, 4, 64, 64, ContiguousRows>",
        "PrefillParams",
        256,
        0,
    ),
    "prefill split_q, pages": (
        "prefill/split_q.cuh",
        "attn_prefill_split_q_kernel<fp16, 192, 8, 32, 32, PagedRows>",
        "PrefillParams",
        256,
        0,
    ),
    "combine": ("combine/combine.cuh", "attn_combine_kernel<bf16, 128>", "CombineParams", 128, 0),
    "merge_states": ("combine/merge_states.cuh", "attn_merge_states_kernel<fp16, 64>", "StatesParams", 64, 0),
    "stream_read": ("bench/stream_read.cuh", "stream_read_kernel<4>", "StreamReadParams", 256, 0),
}


def sources(*suffixes: str) -> list[Path]:
    return sorted(path for path in CSRC.rglob("*") if path.suffix in suffixes)


def includes(path: Path) -> list[str]:
    return re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', path.read_text(encoding="utf-8"), re.MULTILINE)


def test_no_source_includes_the_pipeline_header() -> None:
    found = {path.name for path in sources(".h", ".cuh", ".cu", ".cpp") if "cuda_pipeline.h" in includes(path)}
    assert found == set()


def test_only_common_knows_where_integer_types_come_from() -> None:
    wanted = {"cstdint", "cstddef", "stdint.h", "stddef.h", "cuda/std/cstdint", "cuda/std/cstddef"}
    folders = {
        path.relative_to(CSRC).parts[0]
        for path in sources(".h", ".cuh", ".cu")
        if wanted & set(includes(path)) and path.relative_to(CSRC).parts[0] not in HOST_FOLDERS
    }
    assert folders == {"common"}


class Nvrtc:
    """libnvrtc of the wheel, through its C functions."""

    def __init__(self, folder: Path) -> None:
        ctypes.CDLL(str(next(folder.glob("libnvrtc-builtins.so.*"))))  # opened by name later, wherever it lies
        self.library = ctypes.CDLL(str(next(folder.glob("libnvrtc.so.*"))))

    def compile(self, source: str, options: list[str]) -> tuple[int, str, int]:
        """The result's code, the log and the size of the cubin."""
        program = ctypes.c_void_p()
        assert self.library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None) == 0
        words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        code = self.library.nvrtcCompileProgram(program, len(options), words)
        size = ctypes.c_size_t()
        self.library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        self.library.nvrtcGetProgramLog(program, log)
        self.library.nvrtcGetCUBINSize(program, ctypes.byref(size))
        self.library.nvrtcDestroyProgram(ctypes.byref(program))
        return code, log.value.decode(), size.value


@pytest.fixture(scope="module")
def nvrtc() -> Nvrtc:
    root = wheels_root()
    if root is None or not list((root / "lib").glob("libnvrtc.so.*")):
        pytest.skip("no libnvrtc: pip install nvidia-cuda-nvrtc nvidia-cuda-cccl")
    return Nvrtc(root / "lib")


def options_for(block: int, dynamic_smem: int) -> list[str]:
    root = wheels_root()
    assert root is not None
    folders = [CSRC, root / "include", root / "include" / "cccl"]
    defines = [f"-DSPARK_BLOCK={block}", f"-DSPARK_DYNAMIC_SMEM={dynamic_smem}", "-DSPARK_MIN_BLOCKS=1"]
    return ["--gpu-architecture=sm_90", "-std=c++17", *(f"-I{folder}" for folder in folders), *defines]


@pytest.mark.parametrize("name", sorted(BODIES))
def test_nvrtc_compiles_the_kernel(nvrtc: Nvrtc, name: str) -> None:
    header, reduce, block, dynamic_smem = BODIES[name]
    source = f"""#include "attention/{header}"
namespace spark {{
extern "C" __global__ void kernel(const __grid_constant__ DecodeParams p) {{ {reduce}(p); }}
}}
"""
    code, log, cubin_bytes = nvrtc.compile(source, options_for(block, dynamic_smem))
    assert code == 0, log
    assert cubin_bytes > 4000


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_nvrtc_compiles_the_kernels_that_are_templates(nvrtc: Nvrtc, name: str) -> None:
    header, instance, params, block, dynamic_smem = KERNELS[name]
    source = f"""#include "{header}"
namespace spark {{
template __global__ void {instance}(const __grid_constant__ {params});
}}
"""
    code, log, cubin_bytes = nvrtc.compile(source, options_for(block, dynamic_smem))
    assert code == 0, log
    assert cubin_bytes > 4000


def test_nvrtc_compiles_a_kernel_of_every_source(registry: Registry) -> None:
    """One entry at least for each kernel's header; those of decode are shared by its families."""
    sources = (Path(kernel.source).with_suffix(".cuh") for kernel in registry.kernels.values())
    wanted = {f"{'attention' if 'decode' in path.parts[1] else path.parts[1]}/{path.name}" for path in sources}
    named = {f"attention/{header}" for header, *_ in BODIES.values()} | {header for header, *_ in KERNELS.values()}
    assert named == wanted


def test_nvrtc_would_say_so_if_a_header_needed_the_host(nvrtc: Nvrtc) -> None:
    source = '#include "common/status.h"\nextern "C" __global__ void kernel() {}\n'
    code, log, _ = nvrtc.compile(source, options_for(32, 0))
    assert code != 0
    assert "cstdarg" in log


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry(find_project(None) / "flags.yaml")


@pytest.mark.nvcc
@pytest.mark.parametrize(("stages", "copies"), [("", True), (".s1", False)])
def test_sass_copies_tiles_by_16_byte_cp_async_past_l1(registry: Registry, stages: str, copies: bool) -> None:
    toolchain = find_toolchain()
    if toolchain.nvcc is None or toolchain.cuobjdump is None:
        pytest.skip("no nvcc or cuobjdump: pip install 'sparkctl[toolchain]'")
    (variant,) = select_variants(registry, [f"fa_split_gqa.bf16.d128{stages}"])
    folder = ensure_built(registry, [variant], arch=DEFAULT_ARCH, backend="cuda")
    sass = run_tool([toolchain.cuobjdump, "--dump-sass", folder / "obj" / f"{variant.name}.o"], timeout=120).stdout
    async_copies = [line for line in sass.splitlines() if "LDGSTS" in line]
    assert bool(async_copies) == copies
    assert all(ASYNC_COPY.search(line) for line in async_copies)
