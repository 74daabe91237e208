"""What a compiler said about one function, as frozen data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """One function of a ptxas log.

    A device function that stayed a call has its own stack and spills, which are not the caller's, and no "Used" line:
    its `registers`, `barriers` and sizes are None. An entry always has `registers`.
    """

    function: str  # mangled, as ptxas printed it: `name$1` keeps its suffix
    demangled: str
    arch: str | None  # sm_90a; None where the log does not say
    kind: Literal["entry", "device"]
    registers: int | None  # per thread
    spill_store_bytes: int | None  # None where they are not recorded, as in objects
    spill_load_bytes: int | None
    stack_bytes: int  # this function's own frame
    cumulative_stack_bytes: int | None  # with its callees; None where the log does not say
    static_smem_bytes: int | None  # None where relocatable code leaves it to the linker
    barriers: int | None  # highest barrier id plus one; None from toolkits that do not print it
    constant_bytes: int | None  # all cmem banks; 0 on sm_90 and later, where ptxas prints none
    register_cap: int | None = None  # -maxrregcount, where it overrode the kernel's own limit
    relocatable: bool = False  # -rdc, seen by its `name$1` copies: registers and smem are final only after the link

    @property
    def is_entry(self) -> bool:
        return self.kind == "entry"

    @property
    def spills(self) -> bool:
        return bool(self.spill_store_bytes or self.spill_load_bytes)
