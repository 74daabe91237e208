"""What a project beside ours may need: sources without a kernel, and code that calls across objects (-rdc)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from sparkctl.registry.model import Flag, Profile, Registry, ResolvedFlags
from sparkctl.registry.resolve import find_profile
from sparkctl.registry.values import canonical_values, environment_values, tokens_for

_RELOCATABLE = re.compile(r"(?<!\S)(?:-dc|--device-c|(?:-rdc|--relocatable-device-code)[= ]true)(?!\S)")


def is_relocatable(options: Iterable[str]) -> bool:
    """Whether nvcc's options leave device code to the device linker."""
    return _RELOCATABLE.search(" ".join(options)) is not None


def common_flags(
    registry: Registry, profile: str, sets: Mapping[str, str], environ: Mapping[str, str]
) -> ResolvedFlags:
    """What a source that belongs to no kernel is compiled with: the profile, and the flags that reach every kernel."""
    base = find_profile(registry, profile)
    values = {
        **{name: flag.default for name, flag in registry.flags.items()},
        **base.set,
        **environment_values(registry, environ),
        **canonical_values(registry, sets, "--set"),
    }
    common = [flag for flag in registry.flags.values() if "*" in flag.affects]
    return ResolvedFlags(
        nvcc=_options(base, common, values, "nvcc"),
        ptxas=_options(base, common, values, "ptxas"),
        host=_options(base, common, values, "host"),
        defines={flag.define: values[flag.name] for flag in common if flag.kind == "define" and flag.define}
        | dict(base.define),
        runtime={},
        values=values,
        chain=(),
        options=(),
    )


def helper_name(source: str) -> str:
    """`helper/src.math`, of src/math.cu: an edge's name, and its object's."""
    return "helper/" + re.sub(r"[^A-Za-z0-9_]+", ".", str(Path(source).with_suffix(""))).strip(".")


def _options(base: Profile, flags: Iterable[Flag], values: Mapping[str, str], tool: str) -> tuple[str, ...]:
    own: tuple[str, ...] = getattr(base, tool)
    return (*own, *(token for flag in flags if flag.kind == tool for token in tokens_for(flag, values[flag.name])))
