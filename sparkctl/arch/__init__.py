"""Compute capabilities: parsing, compiler options, and per-SM limits. Pure."""

from sparkctl.arch.limits import KNOWN_ARCHS, Limits, limits_for
from sparkctl.arch.model import Arch
from sparkctl.arch.parse import parse_arch, parse_archs

__all__ = ["KNOWN_ARCHS", "Arch", "Limits", "limits_for", "parse_arch", "parse_archs"]
