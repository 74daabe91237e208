"""Which options profiles and flags give, and what stands for the compilers in the cache's key."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

import sparkctl
from sparkctl.arch import parse_arch
from sparkctl.build import BuildPlan, plan_build
from sparkctl.build.identity import native_options
from sparkctl.build.model import Edge
from sparkctl.registry import load_registry, select_variants
from sparkctl.runtime.manifest import Backend
from sparkctl.toolchain import HostCompiler, Nvcc, Toolchain, describe_native, find_toolchain

TOOLKIT = Path("/opt/cuda")
NVCC = Nvcc(TOOLKIT / "bin/nvcc", TOOLKIT, "13.0.88", "PATH", "", (), (), ("sm_80", "sm_90"), True, "abcdef0123456789")
HOST = HostCompiler(Path("/usr/bin/g++"), "g++ 12", "PATH", "g++ 12 x86_64")
TOOLS = Toolchain(NVCC, HOST, Path("/usr/bin/ninja"), None, None, (TOOLKIT / "include",), Path("/nowhere"))
REGISTRY = load_registry(Path(sparkctl.__file__).resolve().parent.parent / "flags.yaml")
SM_90 = parse_arch("sm_90")


def plan(kernel: str, backend: Backend, profile: str = "release", sets: Mapping[str, str] | None = None) -> BuildPlan:
    variants = select_variants(REGISTRY, [kernel], arch=SM_90)
    return plan_build(
        REGISTRY, variants, arch=SM_90, backend=backend, profile=profile, sets=sets, toolchain=TOOLS, environ={}
    )


def words(kernel: str, backend: Backend, profile: str = "release", **sets: str) -> list[str]:
    return list(plan(kernel, backend, profile, sets).edges[0].argv)


def test_profiles_give_these_options() -> None:
    device = words("attn_decode_split_kv", "cuda")
    assert {"-O3", "--extra-device-vectorization", "--use_fast_math", "-Xptxas=-v,-O3"} <= set(device)
    host = words("attn_decode_split_kv", "emulator")
    assert {"-O3", "-funroll-loops"} <= set(host)
    for argv in (device, host):
        assert not any("native" in word for word in argv)
    assert "--use_fast_math" not in words("attn_decode_split_kv", "cuda", "debug")
    assert "--use_fast_math" not in words("attn_decode_split_kv", "cuda", fast_math="0")
    # A kernel's own value beats the flag's default, and --set beats both.
    assert "-DSPARK_MIN_BLOCKS=3" in device
    assert "-DSPARK_MIN_BLOCKS=1" in words("attn_decode_split_kv_mma", "cuda")
    assert "-DSPARK_MIN_BLOCKS=2" in words("attn_decode_split_kv", "cuda", min_blocks="2")


def test_native_code_has_the_cpu_in_the_cache_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def identities(cpu: str) -> tuple[str, str]:
        monkeypatch.setattr("sparkctl.build.identity.describe_native", lambda host, options: f"{options} {cpu}")
        chosen = plan("attn_combine", "emulator", sets={"march_native": "1"})
        assert "-march=native" in chosen.edges[0].argv
        return plan("attn_combine", "emulator").compiler_identity, chosen.compiler_identity

    (plain, native), (plain_there, native_there) = identities("cpu here"), identities("cpu there")
    assert plain == plain_there
    assert len({plain, native, native_there}) == 3


def test_native_options_are_found_wherever_they_stand() -> None:
    def edge(*argv: str) -> Edge:
        return Edge("e", None, "e.cu", "e.o", None, argv)

    assert native_options([edge("g++", "-march=native"), edge("nvcc", "-Xcompiler=-fPIC,-mtune=native")]) == (
        "-march=native",
        "-mtune=native",
    )
    assert native_options([edge("nvcc", "-arch=native", "-march=x86-64-v3", "-DNAME=native")]) == ()


def test_this_machine_says_what_native_means() -> None:
    host = find_toolchain(environ={"PATH": "/usr/local/bin:/usr/bin:/bin"}).require_host()
    assert describe_native(host, ["-march=native"]) != describe_native(host, ["-march=x86-64"])
