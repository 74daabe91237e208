"""Which prefill variant runs, over which grid: pure functions of shapes and built variants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparkctl.ops.plan import accepted
from sparkctl.runtime.manifest import BuiltVariant

MMA_KERNEL = "attn_prefill_split_q_mma"
SCALAR_KERNEL = "attn_prefill_split_q"
PREFILL_KERNELS = (MMA_KERNEL, SCALAR_KERNEL)  # tensor cores first


@dataclass(frozen=True, slots=True)
class PrefillShape:
    """The shape of one prefill call. A ragged batch has qo_len of its longest sequence."""

    batch: int
    qo_len: int
    num_qo_heads: int
    num_kv_heads: int
    head_dim: int
    kv_len: int  # of k; of all sequences together where k is packed; room of the page table where paged
    dtype: str  # "bf16" | "fp16"
    page_size: int | None = None  # None where contiguous or packed
    ragged: bool = False  # q is packed

    @property
    def group(self) -> int:
        """Query heads per kv head."""
        return self.num_qo_heads // self.num_kv_heads


@dataclass(frozen=True, slots=True)
class PrefillPlan:
    """What a call runs, and why."""

    variant: str
    grid: tuple[int, int, int]
    rows_per_cta: int  # query positions times heads of one kv head
    reason: str

    @property
    def num_splits(self) -> int:
        """The keys of a query tile are never divided."""
        return 1

    def __str__(self) -> str:
        grid = " × ".join(str(n) for n in self.grid)
        return f"{self.variant}, grid {grid}, {self.rows_per_cta} rows a CTA: {self.reason}"


def is_prefill(variant: BuiltVariant) -> bool:
    """Whether its kernel is one of prefill's, or a new one of the family."""
    return variant.kernel in PREFILL_KERNELS or variant.family == "prefill"


def serves_prefill(variant: BuiltVariant, page_size: int | None) -> bool:
    """Whether a variant is a prefill kernel's over the kind of K and V that the call has; new kernels of the family,
    which a caller names, among them."""
    return is_prefill(variant) and bool(variant.values["paged"]) == (page_size is not None)


def rows_per_cta(variant: BuiltVariant) -> int:
    """Packed query rows of a CTA, as the kernels have them (csrc/prefill)."""
    if variant.kernel == SCALAR_KERNEL:
        assert variant.block_threads is not None  # of our own kernels flags.yaml says it
        return variant.block_threads // int(variant.values["lanes"])
    return 128 if int(variant.values["head_dim"]) <= 128 else 64


def choose_prefill(
    variants: Sequence[BuiltVariant], shape: PrefillShape, *, kernel: str = "auto"
) -> BuiltVariant | None:
    """The variant for a shape: tensor cores before CUDA cores, few lanes a row before many. None if none accepts it."""
    for name in PREFILL_KERNELS if kernel == "auto" else (kernel,):
        fitting = [
            v for v in variants if v.kernel == name and serves_prefill(v, shape.page_size) and accepted(v, shape)
        ]
        if fitting:
            return min(fitting, key=lambda v: (int(v.values.get("lanes", 0)), v.name))
    return None


def plan_prefill(shape: PrefillShape, variant: BuiltVariant, reason: str) -> PrefillPlan:
    """The launch for a shape: one CTA per tile of the longest sequence, kv head and sequence."""
    rows = rows_per_cta(variant)
    grid = (-(-shape.group * shape.qo_len // rows), shape.num_kv_heads, shape.batch)
    return PrefillPlan(variant.name, grid, rows, reason)
