"""What the compiler says a kernel uses, and what an SM makes of it. Pure."""

from sparkctl.resources.baseline import Baseline, decode_baseline, encode_baseline
from sparkctl.resources.change import Change, Difference, Numbers, compare
from sparkctl.resources.cuobjdump import ObjectUsage, compare_with_object, object_usages, parse_resource_usage
from sparkctl.resources.demangle import demangle, shorten
from sparkctl.resources.model import ResourceUsage
from sparkctl.resources.occupancy import BlockLimits, NextStep, Occupancy, next_step, occupancy
from sparkctl.resources.ptxas import parse_lines, parse_ptxas, refuse_failure

__all__ = [
    "Baseline",
    "BlockLimits",
    "Change",
    "Difference",
    "NextStep",
    "Numbers",
    "ObjectUsage",
    "Occupancy",
    "ResourceUsage",
    "compare",
    "compare_with_object",
    "decode_baseline",
    "demangle",
    "encode_baseline",
    "next_step",
    "object_usages",
    "occupancy",
    "parse_lines",
    "parse_ptxas",
    "parse_resource_usage",
    "refuse_failure",
    "shorten",
]
