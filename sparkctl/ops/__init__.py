"""The public operators on torch tensors."""

from sparkctl.ops.call import plan_call
from sparkctl.ops.combine import combine
from sparkctl.ops.decode import decode
from sparkctl.ops.merge_states import merge_states
from sparkctl.ops.paged_cache import PagedCache
from sparkctl.ops.paged_decode import paged_decode
from sparkctl.ops.plan import DecodePlan, DecodeShape
from sparkctl.ops.prefill import prefill
from sparkctl.ops.prefill_call import plan_prefill_call
from sparkctl.ops.prefill_plan import PrefillPlan, PrefillShape
from sparkctl.ops.workspace import Workspace, allocate_workspace


def register() -> None:
    """Make the operators known to torch as `torch.ops.sparkctl.*`; torch.compile needs no such call."""
    import importlib

    importlib.import_module("sparkctl.ops.torch_library")


__all__ = [
    "DecodePlan",
    "DecodeShape",
    "PagedCache",
    "PrefillPlan",
    "PrefillShape",
    "Workspace",
    "allocate_workspace",
    "combine",
    "decode",
    "merge_states",
    "paged_decode",
    "plan_call",
    "plan_prefill_call",
    "prefill",
    "register",
]
