"""What the compiler says a kernel uses, and what an SM makes of it. Pure."""

from sparkctl.resources.cuobjdump import ObjectUsage, compare_with_object, parse_resource_usage
from sparkctl.resources.demangle import demangle, shorten
from sparkctl.resources.model import ResourceUsage
from sparkctl.resources.occupancy import BlockLimits, NextStep, Occupancy, next_step, occupancy
from sparkctl.resources.ptxas import parse_ptxas

__all__ = [
    "BlockLimits",
    "NextStep",
    "ObjectUsage",
    "Occupancy",
    "ResourceUsage",
    "compare_with_object",
    "demangle",
    "next_step",
    "occupancy",
    "parse_ptxas",
    "parse_resource_usage",
    "shorten",
]
