"""What the compiler says a kernel uses, and what an SM makes of it. Pure."""

from sparkctl.resources.demangle import demangle, shorten
from sparkctl.resources.model import ResourceUsage
from sparkctl.resources.occupancy import BlockLimits, NextStep, Occupancy, next_step, occupancy
from sparkctl.resources.ptxas import parse_ptxas

__all__ = [
    "BlockLimits",
    "NextStep",
    "Occupancy",
    "ResourceUsage",
    "demangle",
    "next_step",
    "occupancy",
    "parse_ptxas",
    "shorten",
]
