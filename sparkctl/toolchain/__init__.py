"""Compilers, build tools and devices of this machine: where they are, which won, and why."""

from sparkctl.toolchain.ccache import CacheState, cache_folder, hide_password, prepare_cache
from sparkctl.toolchain.devices import Device, Driver, find_devices, find_driver, find_native_archs
from sparkctl.toolchain.find import CompilerChoice, Toolchain, find_toolchain
from sparkctl.toolchain.host import HostCompiler, describe_native, find_program
from sparkctl.toolchain.memory import ProbeMemory, file_identity, user_cache_folder
from sparkctl.toolchain.nvcc import Nvcc, hash_files
from sparkctl.toolchain.process import ToolResult, describe_failure, run_tool, start_tool

__all__ = [
    "CacheState",
    "CompilerChoice",
    "Device",
    "Driver",
    "HostCompiler",
    "Nvcc",
    "ProbeMemory",
    "ToolResult",
    "Toolchain",
    "cache_folder",
    "describe_failure",
    "describe_native",
    "file_identity",
    "find_devices",
    "find_driver",
    "find_native_archs",
    "find_program",
    "find_toolchain",
    "hash_files",
    "hide_password",
    "prepare_cache",
    "run_tool",
    "start_tool",
    "user_cache_folder",
]
