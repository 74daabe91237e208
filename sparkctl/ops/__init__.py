"""The public operators on torch tensors."""

from sparkctl.ops.call import plan_call
from sparkctl.ops.combine import combine
from sparkctl.ops.decode import decode
from sparkctl.ops.paged_decode import paged_decode
from sparkctl.ops.plan import DecodePlan, DecodeShape
from sparkctl.ops.workspace import Workspace, allocate_workspace

__all__ = [
    "DecodePlan",
    "DecodeShape",
    "Workspace",
    "allocate_workspace",
    "combine",
    "decode",
    "paged_decode",
    "plan_call",
]
