"""The registry: flags.yaml as frozen data, its variants, and what each is compiled with. Pure after load."""

from sparkctl.registry.formula import evaluate
from sparkctl.registry.load import find_project, load_registry
from sparkctl.registry.model import (
    Axis,
    Flag,
    FlagOrigin,
    Kernel,
    Location,
    OptionOrigin,
    Profile,
    Range,
    Registry,
    ResolvedFlags,
    Suite,
    Variant,
)
from sparkctl.registry.resolve import resolve_flags
from sparkctl.registry.values import parse_sets
from sparkctl.registry.variants import runs_on, select_variants, span_variants

__all__ = [
    "Axis",
    "Flag",
    "FlagOrigin",
    "Kernel",
    "Location",
    "OptionOrigin",
    "Profile",
    "Range",
    "Registry",
    "ResolvedFlags",
    "Suite",
    "Variant",
    "evaluate",
    "find_project",
    "load_registry",
    "parse_sets",
    "resolve_flags",
    "runs_on",
    "select_variants",
    "span_variants",
]
