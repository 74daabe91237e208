"""From a selection of variants to the edges of one library. Touches the disk only to list bindings and the emulator."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkctl.arch import Arch
from sparkctl.build.commands import cuda_command, device_link_command, host_command, link_command
from sparkctl.build.folders import cuda_includes, host_includes, own_csrc, support_sources, takes_own_csrc
from sparkctl.build.helpers import common_flags, helper_name, is_relocatable
from sparkctl.build.identity import compiler_identity
from sparkctl.build.model import BuildPlan, Edge, Link
from sparkctl.build.ninja_text import LINK_NAME
from sparkctl.build.paths import Paths, path_text, plan_paths, tvm_folder, tvm_include_dirs
from sparkctl.build.program import program_folder_suffix, program_link
from sparkctl.build.sanitize import Sanitizer, instrumentation, sanitizer_defines
from sparkctl.build.standalone import require_runner_sources, runner_defines, runner_link
from sparkctl.errors import UsageError
from sparkctl.registry import resolve_flags, runs_on, span_variants
from sparkctl.registry.model import Registry, ResolvedFlags, Variant
from sparkctl.registry.resolve import find_profile
from sparkctl.registry.values import ENVIRONMENT_PREFIX, canonical_values, environment_values
from sparkctl.runtime.locate import build_root_of
from sparkctl.runtime.manifest import Backend
from sparkctl.toolchain import Toolchain

LIBRARY_NAME = "libsparkctl.so"


@dataclass(frozen=True, slots=True)
class _Setting:
    """What all edges of a plan share."""

    registry: Registry
    arch: Arch
    backend: Backend
    profile: str
    sets: Mapping[str, str]
    toolchain: Toolchain
    environ: Mapping[str, str]
    paths: Paths
    objects: str  # folder, as commands name it
    runner: bool
    sanitizer: Sanitizer | None
    program: Path | None


def plan_build(
    registry: Registry,
    variants: Sequence[Variant],
    *,
    arch: Arch,
    backend: Backend,
    profile: str = "release",
    sets: Mapping[str, str] | None = None,
    toolchain: Toolchain,
    environ: Mapping[str, str],
    build_root: Path | None = None,
    runner: bool = False,
    sanitizer: Sanitizer | None = None,
    program: Path | None = None,
) -> BuildPlan:
    """The edges that put `variants` into one library, and with `runner` into the standalone test runner too.

    With a `sanitizer`, which the emulator alone has, there is only the runner; with a `program`, a file that brings its
    own kernel and main(), there is only that.

    Raises MissingTool when the compiler or its headers are missing, UsageError for an unknown profile or flag, an arch
    that this nvcc does not know, or a project without a runner.
    """
    find_profile(registry, profile)
    if sanitizer and backend != "emulator":
        raise UsageError(f"--sanitize {sanitizer} is the emulator's", hint="leave out --backend cuda")
    runner = program is None and (runner or sanitizer is not None)
    refuse_runtime_flags(registry, sets or {})
    if runner:
        require_runner_sources(registry.root)
    changed = changed_flags(registry, sets or {}, environ)
    toolchain.require_ninja()
    if backend == "cuda":
        toolchain.require_arch(arch)
    build_root = build_root or default_build_root(registry, environ)
    suffix = program_folder_suffix(program) if program else ""
    folder = build_root / (folder_name(backend, arch, profile, changed, sanitizer) + suffix)
    setting = _Setting(
        registry=registry,
        arch=arch,
        backend=backend,
        profile=profile,
        sets=sets or {},
        toolchain=toolchain,
        environ=environ,
        paths=plan_paths(
            toolchain, root=registry.root, build_root=build_root, csrc=own_csrc() if takes_own_csrc(registry) else None
        ),
        objects=path_text(folder / "obj", registry.root),
        runner=runner,
        sanitizer=sanitizer,
        program=program,
    )
    everything = (
        []
        if program
        else [v for kernel in registry.kernels.values() for v in span_variants(kernel) if runs_on(v, arch)]
    )
    chosen = {variant.name for variant in variants}
    edges = {variant.name: _variant_edge(setting, variant) for variant in everything}
    if missing := chosen - edges.keys():
        raise UsageError(f"{min(missing)} does not run on {arch.name}")
    support = tuple(_support_edges(setting))
    return BuildPlan(
        registry=registry,
        arch=arch,
        backend=backend,
        profile=profile,
        sets=changed,
        toolchain=toolchain,
        environ=environ,
        folder=folder,
        build_root=build_root,
        edges=tuple(edge for name, edge in edges.items() if name in chosen) + support,
        spare={name: edge for name, edge in edges.items() if name not in chosen},
        links=_links(
            setting,
            folder,
            has_bindings=any(edge.group == "binding" for edge in support),
            relocatable=any(is_relocatable(edge.argv) for edge in (*edges.values(), *support)),
        ),
        paths=setting.paths,
        compiler=_compiler_text(toolchain, backend),
        compiler_identity=compiler_identity(toolchain, backend, environ, (*edges.values(), *support)),
    )


def refuse_runtime_flags(registry: Registry, sets: Mapping[str, str]) -> None:
    """UsageError for a flag that is read at each call: what is built is the same for every value of it."""
    for name, value in sets.items():
        if name in registry.flags and registry.flags[name].kind == "runtime":
            raise UsageError(
                f"--set {name}={value}: {name} is read at each call, a build has nothing to set",
                hint=f"{ENVIRONMENT_PREFIX}{name.upper()}={value}, flags= of the operators, or sparkctl bench --set",
            )


def changed_flags(registry: Registry, sets: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """The flags from --set and the environment that decide what is built."""
    changed = {**environment_values(registry, environ), **canonical_values(registry, sets, "--set")}
    return {name: value for name, value in changed.items() if registry.flags[name].kind != "runtime"}


def folder_name(
    backend: Backend, arch: Arch, profile: str, sets: Mapping[str, str], sanitizer: Sanitizer | None = None
) -> str:
    """`cuda-sm_90-release`, with the sanitizer, and a digest of the changed flags if there are any."""
    name = f"{backend}-{arch}-{profile}" + (f"-{sanitizer}" if sanitizer else "")
    if not sets:
        return name
    text = json.dumps(dict(sets), sort_keys=True)
    return f"{name}-{hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}"


def default_build_root(registry: Registry, environ: Mapping[str, str]) -> Path:
    """Where the registry's project is built."""
    return build_root_of(registry.root, environ)


def _variant_edge(setting: _Setting, variant: Variant) -> Edge:
    flags = resolve_flags(
        setting.registry,
        variant,
        arch=setting.arch,
        profile=setting.profile,
        sets=setting.sets,
        environ=setting.environ,
    )
    source = variant.kernel.source
    output = f"{setting.objects}/{variant.name}.o"
    if setting.backend == "cuda":
        argv = _cuda_argv(setting, source, output, flags)
        return Edge(variant.name, variant, source, output, f"{setting.objects}/{variant.name}.ptxas", argv)
    options = (*flags.host, *instrumentation(setting.sanitizer))
    argv = _host_argv(setting, source, output, options, flags.defines, ())
    return Edge(variant.name, variant, source, output, None, argv)


def _cuda_argv(setting: _Setting, source: str, output: str, flags: ResolvedFlags) -> tuple[str, ...]:
    before, behind = cuda_includes(setting.registry, setting.paths)
    return cuda_command(
        setting.toolchain,
        flags,
        arch=setting.arch,
        paths=setting.paths,
        source=source,
        output=output,
        before=before,
        behind=behind,
    )


def _links(setting: _Setting, folder: Path, *, has_bindings: bool, relocatable: bool) -> tuple[Link, ...]:
    if setting.program:
        return (program_link(setting.toolchain, setting.paths, folder, setting.program),)
    if setting.sanitizer:
        return (runner_link(setting.toolchain, setting.paths, folder, backend=setting.backend),)
    tvm_library = tvm_folder() / "lib" / "libtvm_ffi.so" if has_bindings else None
    library = Link(
        LINK_NAME,
        path_text(folder / LIBRARY_NAME, setting.registry.root),
        device_link_command(setting.toolchain, arch=setting.arch, paths=setting.paths, tvm_library=tvm_library)
        if relocatable
        else link_command(
            setting.toolchain,
            paths=setting.paths,
            cuda=setting.backend == "cuda",
            tvm_library=tvm_library,
        ),
        groups=("binding", "emulator", "helper"),
    )
    if not setting.runner:
        return (library,)
    return library, runner_link(setting.toolchain, setting.paths, folder, backend=setting.backend)


def _support_edges(setting: _Setting) -> Iterator[Edge]:
    """Bindings, the emulator's own sources, and the standalone test runner's."""
    root = setting.registry.root
    options, common = _support_flags(setting)
    alone = setting.sanitizer or setting.program
    if setting.backend == "cuda":
        yield from _helper_edges(setting)
    groups = [] if alone else [("binding", tvm_include_dirs, common)]
    if setting.backend == "emulator":
        groups.append(("emulator", tuple, common))
    if setting.runner:
        groups.append(("runner", tuple, {**common, **runner_defines(setting.arch, setting.backend)}))
    for group, includes, defines in groups:
        for path in support_sources(setting.registry, group):
            source, output = setting.paths.text(path), f"{setting.objects}/{group}/{path.stem}.o"
            argv = _host_argv(setting, source, output, options, defines, includes())
            yield Edge(f"{group}/{path.stem}", None, source, output, None, argv)
    if setting.program:
        source, output = path_text(setting.program, root), f"{setting.objects}/program/{setting.program.stem}.o"
        options = (*options, *instrumentation(setting.sanitizer))
        defines = {**common, **runner_defines(setting.arch, setting.backend)}
        argv = _host_argv(setting, source, output, options, defines, ())
        yield Edge(f"program/{setting.program.stem}", None, source, output, None, argv)


def _helper_edges(setting: _Setting) -> Iterator[Edge]:
    """Sources without a kernel."""
    flags = common_flags(setting.registry, setting.profile, setting.sets, setting.environ)
    for source in setting.registry.helpers:
        name = helper_name(source)
        output = f"{setting.objects}/{name}.o"
        argv = _cuda_argv(setting, source, output, flags)
        yield Edge(name, None, source, output, f"{setting.objects}/{name}.ptxas", argv)


def _support_flags(setting: _Setting) -> tuple[tuple[str, ...], Mapping[str, str]]:
    flags = common_flags(setting.registry, setting.profile, setting.sets, setting.environ)
    return flags.host, flags.defines


def _host_argv(
    setting: _Setting,
    source: str,
    output: str,
    options: Sequence[str],
    defines: Mapping[str, str],
    system_includes: Sequence[Path],
) -> tuple[str, ...]:
    emulator = setting.backend == "emulator"
    return host_command(
        setting.toolchain,
        paths=setting.paths,
        source=source,
        output=output,
        options=options,
        defines={"SPARK_EMULATOR": "1", **sanitizer_defines(setting.sanitizer), **defines} if emulator else defines,
        includes=host_includes(setting.registry, setting.paths, emulator=emulator),
        system_includes=(*system_includes, *setting.toolchain.require_cuda_headers()),
    )


def _compiler_text(toolchain: Toolchain, backend: Backend) -> str:
    return f"nvcc {toolchain.require_nvcc().version}" if backend == "cuda" else toolchain.require_host().version
