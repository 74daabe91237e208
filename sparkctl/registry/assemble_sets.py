"""The `set` maps of profiles, kernels and archs: flag values made canonical."""

from __future__ import annotations

from collections.abc import Mapping

from sparkctl.errors import UsageError
from sparkctl.registry.document import KeyPath
from sparkctl.registry.model import Flag
from sparkctl.registry.problems import Problems
from sparkctl.registry.schema import Scalar
from sparkctl.registry.values import canonical_value


def assemble_sets(
    values: Mapping[str, Scalar], path: KeyPath, flags: Mapping[str, Flag], problems: Problems
) -> dict[str, str]:
    """Canonical flag values of a `set`; unknown flags and refused values are problems."""
    result: dict[str, str] = {}
    for name, value in values.items():
        if not problems.is_whole(("flags", name)):
            continue
        if name not in flags:
            problems.add_unknown((*path, name), "flag", [*flags, *problems.names_taken_out("flags")])
            continue
        try:
            result[name] = canonical_value(flags[name], scalar_text(value))
        except UsageError as error:
            problems.add_error((*path, name), error)
    return result


def scalar_text(value: Scalar) -> str:
    """A YAML scalar as it would be typed: true is `1`."""
    return str(int(value)) if isinstance(value, bool) else str(value)
