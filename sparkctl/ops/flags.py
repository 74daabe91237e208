"""Flags that are read at each call: their values from the library's manifest, the environment and the caller."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sparkctl.errors import SparkctlError
from sparkctl.registry.suggest import did_you_mean
from sparkctl.registry.values import ENVIRONMENT_PREFIX, canonical_text
from sparkctl.runtime.manifest import BuiltVariant, Manifest, RuntimeFlag

FlagValue = bool | int | str
FlagSource = Literal["the registry", "the environment", "the call"]

# What a flag decides: among the variants of a kernel that it reaches, those with this value of an axis.
AXIS_OF_FLAG: Mapping[str, tuple[str, Mapping[str, int | str]]] = {"FAPIPE": ("stages", {"1": 2, "0": 1})}


@dataclass(frozen=True, slots=True)
class FlagSetting:
    """The value of one flag for one kernel in one call; prints as `FAPIPE=0 (the environment)`."""

    name: str
    value: str  # canonical: "1", "0", "3"
    source: FlagSource

    def __str__(self) -> str:
        return f"{self.name}={self.value} ({self.source})"


# kernel -> its settings; kernels that no flag reaches are not there
FlagSettings = Mapping[str, Sequence[FlagSetting]]


def runtime_flags(
    manifest: Manifest, environ: Mapping[str, str], api: Mapping[str, FlagValue] | None = None
) -> FlagSettings:
    """The settings of every kernel, weakest first: what the library was built with, `environ`, `api`.

    Reads `environ` anew each time. Raises ValueError for a name in `api` that is no run-time flag of the library, for
    one in `environ` that is no flag at all, and for a value that the flag does not take.
    """
    check_names(manifest, environ)
    known = {flag.name: flag for flag in manifest.runtime_flags}
    for name in api or {}:
        if name not in known:
            raise ValueError(f"flags names {name!r}, accepted are {', '.join(known) or 'none: the library has none'}")
    settings: dict[str, list[FlagSetting]] = {}
    for flag in known.values():
        given = _given(flag, environ, api or {})
        for kernel, value in flag.kernels.items():
            settings.setdefault(kernel, []).append(given or FlagSetting(flag.name, value, "the registry"))
    return settings


def given_texts(manifest: Manifest, environ: Mapping[str, str]) -> tuple[str | None, ...]:
    """What `environ` says of each run-time flag of a library, as it is written there: all that a plan takes from it."""
    return tuple(_text_of(flag, environ)[1] for flag in manifest.runtime_flags)


def check_names(manifest: Manifest, environ: Mapping[str, str]) -> None:
    """ValueError for a SPARKCTL_FLAG_<NAME> that names no flag: none of the library's, and none of flags.yaml."""
    known = {flag.name.upper() for flag in manifest.runtime_flags}
    for variable in environ:
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        name = variable.removeprefix(ENVIRONMENT_PREFIX).upper()
        if name in known or name in _registered_names():  # of other kinds too, which the compiler reads
            continue
        spelled = [ENVIRONMENT_PREFIX + other for other in sorted({*known, *_registered_names()})]
        hint = did_you_mean(variable, spelled) or "sparkctl flags lists them"
        raise ValueError(f"{variable} in the environment names no flag: {hint}")


@functools.cache
def _registered_names() -> frozenset[str]:
    """The flags of the flags.yaml at hand, in capitals; none where there is no readable one."""
    from sparkctl.registry.load import REGISTRY_NAME, find_project, load_registry

    try:
        return frozenset(name.upper() for name in load_registry(find_project() / REGISTRY_NAME).flags)
    except SparkctlError:
        return frozenset()


def allowed_by_flags(variants: Iterable[BuiltVariant], settings: FlagSettings) -> list[BuiltVariant]:
    """The variants that the settings of their kernels leave over."""
    return [
        variant
        for variant in variants
        if all(_allows(setting, variant) for setting in settings.get(variant.kernel, ()))
    ]


def describe_flags(kernel: str, settings: FlagSettings) -> str:
    """`; FAPIPE=0 (the environment)`, for the reason of a plan; empty where no flag reaches the kernel."""
    return "".join(f"; {setting}" for setting in settings.get(kernel, ()))


def _allows(setting: FlagSetting, variant: BuiltVariant) -> bool:
    axis, values = AXIS_OF_FLAG.get(setting.name, ("", {}))
    return axis not in variant.values or setting.value not in values or variant.values[axis] == values[setting.value]


def _given(flag: RuntimeFlag, environ: Mapping[str, str], api: Mapping[str, FlagValue]) -> FlagSetting | None:
    if flag.name in api:
        return FlagSetting(flag.name, _canonical(flag, api[flag.name], f"flags[{flag.name!r}]"), "the call")
    variable, text = _text_of(flag, environ)
    return None if text is None else FlagSetting(flag.name, _canonical(flag, text, variable), "the environment")


def _text_of(flag: RuntimeFlag, environ: Mapping[str, str]) -> tuple[str, str | None]:
    """The variable that sets a flag, and its value; None where none does."""
    for spelled in dict.fromkeys((flag.name.upper(), flag.name, flag.name.lower())):
        text = environ.get(ENVIRONMENT_PREFIX + spelled)
        if text is not None:
            return ENVIRONMENT_PREFIX + spelled, text
    return "", None


def _canonical(flag: RuntimeFlag, value: FlagValue, where: str) -> str:
    text = str(int(value)) if isinstance(value, bool) else str(value)
    canonical = canonical_text(flag.type, text)
    if canonical is None or not _is_accepted(flag, canonical):
        raise ValueError(f"{where} is {value!r}, accepted are {accepted_values(flag)}")
    return canonical


def _is_accepted(flag: RuntimeFlag, value: str) -> bool:
    if flag.span is not None:
        start, stop = flag.span
        return start <= int(value) and (stop is None or int(value) <= stop)
    return flag.accepts is None or value in flag.accepts


def accepted_values(flag: RuntimeFlag) -> str:
    """For messages: `0, 1`, `1 to 32`, `whole numbers`."""
    if flag.span is not None:
        return f"{flag.span[0]} to {'any' if flag.span[1] is None else flag.span[1]}"
    if flag.accepts is not None:
        return ", ".join(flag.accepts)
    return {"bool": "0, 1, false, true, off, on", "int": "whole numbers"}.get(flag.type, "any text")
