"""What a variant is compiled with: every flag's final value, which source set it, and the options that follow."""

from __future__ import annotations

from collections.abc import Mapping

from sparkctl.arch import Arch, parse_arch
from sparkctl.errors import UsageError
from sparkctl.registry.model import (
    Flag,
    FlagOrigin,
    Kernel,
    Location,
    OptionOrigin,
    Profile,
    Registry,
    ResolvedFlags,
    Variant,
)
from sparkctl.registry.suggest import did_you_mean
from sparkctl.registry.values import canonical_values, environment_values, tokens_for

UNBOUNDED = 2**31 - 1  # SPARK_ACCEPTS_<NAME>_MAX of an open range

_Layer = tuple[str, Mapping[str, str], Mapping[str, Location]]  # source, values, where each was written


def resolve_flags(
    registry: Registry,
    variant: Variant,
    *,
    arch: Arch | None,
    profile: str,
    sets: Mapping[str, str],
    environ: Mapping[str, str],
    api: Mapping[str, str] | None = None,
) -> ResolvedFlags:
    """Flags that reach the variant's kernel, weakest source first: default, profile, kernel, arch, environment,
    --set, api.

    Options come in the order profile, kernel, arch, flags, so that a flag can answer what the file says. Raises
    UsageError for an unknown profile or flag and for a value that a flag does not accept.
    """
    base = find_profile(registry, profile)
    kernel = variant.kernel
    layers: list[_Layer] = [
        (f"profile {base.name}", base.set, _below(base.locations, "set:")),
        ("kernel", kernel.set, _below(kernel.locations, "set.")),
        *(
            (f"arch {key}", kernel.arch_set[key], _below(kernel.locations, f"arch.{key}."))
            for key in _matching_archs(kernel.arch_set, arch)
        ),
        ("environment", environment_values(registry, environ), {}),
        ("--set", canonical_values(registry, sets, "--set"), {}),
        ("api", canonical_values(registry, api or {}, "api"), {}),
    ]
    flags = [flag for flag in registry.flags.values() if flag.reaches(kernel.name)]
    chain = tuple(step for flag in flags for step in _chain(flag, layers))
    values = {step.flag: step.value for step in chain if step.won}
    options = (*_profile_options(base), *_kernel_options(kernel, arch), *_flag_options(flags, values))
    return ResolvedFlags(
        nvcc=_tokens(options, "nvcc"),
        ptxas=_tokens(options, "ptxas"),
        host=_tokens(options, "host"),
        defines=_variant_defines(variant) | _flag_defines(flags, values) | dict(base.define),
        runtime={flag.name: values[flag.name] for flag in flags if flag.kind == "runtime"},
        values=values,
        chain=chain,
        options=options,
    )


def find_profile(registry: Registry, name: str) -> Profile:
    """UsageError with a hint when there is none of this name."""
    if name not in registry.profiles:
        raise UsageError(f"unknown profile '{name}'", hint=did_you_mean(name, registry.profiles))
    return registry.profiles[name]


def arch_key_applies(key: str, arch: Arch) -> bool:
    """`sm_90` in the file speaks of sm_90, sm_90a and sm_90f; `sm_90a` of that alone."""
    written = parse_arch(key)
    same_chip = (written.major, written.minor) == (arch.major, arch.minor)
    return same_chip and written.suffix in ("", arch.suffix)


def _matching_archs(keys: Mapping[str, object], arch: Arch | None) -> list[str]:
    """The keys that apply, the more exact one last."""
    if arch is None:
        return []
    return sorted((key for key in keys if key != "*" and arch_key_applies(key, arch)), key=len)


def _chain(flag: Flag, layers: list[_Layer]) -> list[FlagOrigin]:
    first = flag.locations.get("default", flag.location)
    steps: list[tuple[str, str, Location | None]] = [("default", flag.default, first)]
    steps += [
        (source, values[flag.name], where.get(flag.name)) for source, values, where in layers if flag.name in values
    ]
    last = len(steps) - 1
    return [
        FlagOrigin(flag.name, value, source, where, won=index == last)
        for index, (source, value, where) in enumerate(steps)
    ]


def _below(locations: Mapping[str, Location], prefix: str) -> dict[str, Location]:
    return {key.removeprefix(prefix): where for key, where in locations.items() if key.startswith(prefix)}


def _profile_options(profile: Profile) -> list[OptionOrigin]:
    source = f"profile {profile.name}"
    tokens = {"nvcc": profile.nvcc, "ptxas": profile.ptxas, "host": profile.host}
    return [
        OptionOrigin(tool, token, source, profile.locations.get(f"{tool}:{index}"))
        for tool, listed in tokens.items()
        for index, token in enumerate(listed)
    ]


def _kernel_options(kernel: Kernel, arch: Arch | None) -> list[OptionOrigin]:
    return [
        OptionOrigin(
            "nvcc", token, "kernel" if key == "*" else f"arch {key}", kernel.locations.get(f"nvcc.{key}.{index}")
        )
        for key in ["*", *_matching_archs(kernel.nvcc, arch)]
        for index, token in enumerate(kernel.nvcc.get(key, ()))
    ]


def _flag_options(flags: list[Flag], values: Mapping[str, str]) -> list[OptionOrigin]:
    return [
        OptionOrigin(flag.kind, token, f"flag {flag.name}={values[flag.name]}", flag.locations.get("options"))
        for flag in flags
        for token in tokens_for(flag, values[flag.name])
    ]


def _tokens(options: tuple[OptionOrigin, ...], tool: str) -> tuple[str, ...]:
    return tuple(option.token for option in options if option.tool == tool)


def _flag_defines(flags: list[Flag], values: Mapping[str, str]) -> dict[str, str]:
    return {flag.define: values[flag.name] for flag in flags if flag.kind == "define" and flag.define}


def _variant_defines(variant: Variant) -> dict[str, str]:
    defines = {f"SPARK_{axis.upper()}": str(value) for axis, value in variant.values}
    if variant.block_threads is not None:
        defines["SPARK_BLOCK"] = str(variant.block_threads)
    defines["SPARK_DYNAMIC_SMEM"] = str(variant.dynamic_smem_bytes)
    defines["SPARK_VARIANT"] = variant.name
    for name, accepted in variant.kernel.accepts.items():
        defines[f"SPARK_ACCEPTS_{name.upper()}_MIN"] = str(accepted.start)
        defines[f"SPARK_ACCEPTS_{name.upper()}_MAX"] = str(UNBOUNDED if accepted.stop is None else accepted.stop)
    return defines
