"""Which variant runs and into how many splits: pure functions of shapes, built variants and the device's size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sparkctl.runtime.manifest import BuiltVariant

ROWS_WITHOUT_AXIS = 8  # rows of query that a CTA takes where they are no axis: the warps of the CUDA-core kernels
TILE_AXES = ("block_kv", "tile")  # whichever a kernel has: the keys of its tile
TILE_WITHOUT_AXIS = 32  # keys of a tile where neither is an axis: one per lane
# Tensor cores first; of the CUDA-core kernels the first is for long-context GQA alone, see kernel_order.
KERNEL_PREFERENCE = {
    "decode": ("attn_decode_split_kv_mma", "fa_split_gqa", "attn_decode_split_kv"),
    "paged_decode": ("attn_paged_decode_split_kv_mma", "fa_split_gqa", "attn_paged_decode_split_kv"),
}

# Where fa_split_gqa is the CUDA-core kernel: from two query heads a kv head on its warps share the tile that they wait
# for, and from this length on every split has several tiles, so that there is one to load while another is reduced.
GQA_KERNEL = "fa_split_gqa"
GQA_LEAST_GROUP = 2
GQA_LEAST_KV_LEN = 1024
GQA_TILE = 14  # the tile that the planner takes; others are chosen by name

# Bytes of K and V tiles that keep an SM's share of the memory busy: more CTAs than hold this much only add to the
# merge. H200 sweep, docs/kernels/decode.md.
BYTES_IN_FLIGHT_PER_SM = 64 * 1024

# Tiles of the tensor-core kernels, by what the sweeps of docs/kernels/decode.md found fastest on an H200. MANY_CTAS is
# where CTAs fill the device without splits.
NARROW_TILE, TILE, WIDE_TILE = 32, 64, 128
MANY_CTAS = 128
SOME_CTAS = 32  # from here on eight warps: one CTA an SM, as they are, is never placed beside another of its call
SHORT_KV_LEN = 4096  # below, many CTAs are best with narrow tiles: more of them are under way on an SM
FEW_KEYS = 64 * 1024  # of all kv heads: up to here paged decode has more from a cheap merge than from eight warps

# Cost of a split in units of one tile's time: what a CTA spends before and after its tiles, and what one more split
# adds to the merge. docs/kernels/decode.md has where they come from.
CTA_OVERHEAD_TILES = 10.0
MERGE_AT_ONCE = 16
MERGE_TILES = (0.12, 0.2)  # for each split up to MERGE_AT_ONCE, and for each further one
MERGE_TILES_WIDE = (0.2, 0.5)  # of WIDE_TILE
MOST_RAGGED_SPLITS = 64  # of a ragged batch: each is a CTA for the short sequences too


class AttentionShape(Protocol):
    """What the shapes of all attention calls have."""

    @property
    def group(self) -> int: ...
    @property
    def qo_len(self) -> int: ...
    @property
    def kv_len(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def dtype(self) -> str: ...
    @property
    def page_size(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class DecodeShape:
    """The shape of one decode call; kv_len is the length that the splits are planned for."""

    batch: int
    qo_len: int
    num_qo_heads: int
    num_kv_heads: int
    head_dim: int
    kv_len: int
    dtype: str  # "bf16" | "fp16"
    page_size: int | None = None  # None where contiguous
    total_kv_len: int | None = None  # keys of all sequences together, where the caller knows; None: batch * kv_len

    @property
    def group(self) -> int:
        """Query heads per kv head."""
        return self.num_qo_heads // self.num_kv_heads

    @property
    def is_ragged(self) -> bool:
        """Whether some sequences are known to be shorter than kv_len."""
        return self.total_kv_len is not None and self.total_kv_len < self.batch * self.kv_len


@dataclass(frozen=True, slots=True)
class DecodePlan:
    """What a call runs, and why."""

    family: str  # the operator, which is also the library's entry
    variant: str
    combine_variant: str
    num_splits: int
    grid: tuple[int, int, int]
    waves: float
    reason: str

    def __str__(self) -> str:
        grid = " × ".join(str(n) for n in self.grid)
        return f"{self.variant}, grid {grid}, {self.num_splits} splits, {self.waves:.2f} waves: {self.reason}"


def operator_for(shape: DecodeShape) -> str:
    """The operator, and the entry of the library, that a shape belongs to."""
    return "decode" if shape.page_size is None else "paged_decode"


def serves(variant: BuiltVariant, operator: str) -> bool:
    """Whether an operator can run the variant: a kernel of its own, or a new one of its family, which a caller names;
    over the kind of K and V that it takes."""
    paged = operator == "paged_decode"
    is_new = variant.family == operator and not any(variant.kernel in known for known in KERNEL_PREFERENCE.values())
    is_own = variant.kernel in KERNEL_PREFERENCE[operator]
    return (is_own or is_new) and bool(variant.values.get("paged", paged)) == paged


def family_of(variant: BuiltVariant) -> str:
    """The operator that a variant serves; where none does, the family that the registry puts it in."""
    return next((operator for operator in KERNEL_PREFERENCE if serves(variant, operator)), variant.family)


def is_planned(variant: BuiltVariant) -> bool:
    """Whether the planner may take the variant; others run only where a caller names them."""
    return variant.values.get("q_frag", "resident") == "resident"


def tile_size(variant: BuiltVariant) -> int:
    """Keys that a CTA takes at a time."""
    return next((int(variant.values[axis]) for axis in TILE_AXES if axis in variant.values), TILE_WITHOUT_AXIS)


def rows_per_cta(variant: BuiltVariant) -> int:
    """Packed query rows that a CTA takes."""
    return int(variant.values.get("rows", ROWS_WITHOUT_AXIS))


def passes_for(variant: BuiltVariant, shape: DecodeShape) -> int:
    """CTAs that share a kv head's keys because its packed query rows do not fit one."""
    return -(-shape.group * shape.qo_len // rows_per_cta(variant))


def wanted_tile(shape: DecodeShape) -> int:
    """Keys of a tile that suit a shape on tensor cores, one warp for each 16.

    Eight warps wait less for page look-ups and in long work, four merge sooner, two leave room for more CTAs.
    """
    ctas = shape.batch * shape.num_kv_heads
    if ctas >= MANY_CTAS:
        return NARROW_TILE if shape.kv_len < SHORT_KV_LEN else WIDE_TILE
    few = ctas < SOME_CTAS if shape.page_size is None else ctas * shape.kv_len <= FEW_KEYS
    return TILE if few else WIDE_TILE


def accepted(variant: BuiltVariant, shape: AttentionShape) -> bool:
    """Whether a variant is compiled for the shape's dtype and head_dim, and its ranges hold the rest."""
    if variant.values["dtype"] != shape.dtype or variant.values["head_dim"] != shape.head_dim:
        return False
    run_time = {"group": shape.group, "qo_len": shape.qo_len, "kv_len": shape.kv_len, "page_size": shape.page_size}
    for name, (start, stop) in variant.accepts.items():
        value = run_time.get(name)
        if value is not None and not (start <= value and (stop is None or value <= stop)):
            return False
    return True


def is_long_gqa(shape: DecodeShape) -> bool:
    """Whether a shape is on the long-context GQA path: query heads share kv heads, over many keys."""
    return shape.group >= GQA_LEAST_GROUP and shape.kv_len >= GQA_LEAST_KV_LEN


def kernel_order(operator: str, shape: DecodeShape) -> tuple[str, ...]:
    """The operator's kernels, best first: tensor cores; then fa_split_gqa for long-context GQA, last for the rest."""
    kernels = KERNEL_PREFERENCE[operator]
    if is_long_gqa(shape):
        return kernels
    return (*(name for name in kernels if name != GQA_KERNEL), GQA_KERNEL)


def choose_variant(
    variants: Sequence[BuiltVariant], shape: DecodeShape, *, family: str = "decode", kernel: str = "auto"
) -> BuiltVariant | None:
    """The variant for a shape: the first kernel in order of preference that has one, and of it the best.

    None when no variant accepts the shape.
    """
    wanted = kernel_order(family, shape) if kernel == "auto" else (kernel,)
    for name in wanted:
        fitting = [
            v for v in variants if v.kernel == name and is_planned(v) and serves(v, family) and accepted(v, shape)
        ]
        if fitting:
            return min(fitting, key=lambda variant: _preference(variant, shape))
    return None


def choice_reason(chosen: BuiltVariant, shape: DecodeShape, family: str) -> str:
    """Why the dispatch rule came to the kernel of `chosen`; empty where it was the first choice of any shape."""
    before = kernel_order(family, shape)
    before = before[: before.index(chosen.kernel)]
    if not before:
        return ""
    missing = f"no built variant of {', '.join(before)} accepts the shape"
    path = f"group {shape.group} over {shape.kv_len} keys"
    if chosen.kernel != GQA_KERNEL:
        least = f"{GQA_KERNEL} is for group {GQA_LEAST_GROUP} and {GQA_LEAST_KV_LEN} keys and more"
        return missing if is_long_gqa(shape) else f"{missing}; {path}: {least}"
    return f"{missing}; {path}: {'the long-context GQA path' if is_long_gqa(shape) else 'the last that is left'}"


def _preference(variant: BuiltVariant, shape: DecodeShape) -> tuple[int, int, int, int, str]:
    """The fewest passes over the keys, the fewest rows, the wanted tile, a ring near BYTES_IN_FLIGHT_PER_SM.

    Of fa_split_gqa GQA_TILE and two stages.
    """
    tile = tile_size(variant)
    if variant.kernel == GQA_KERNEL:
        return (0, 0, abs(tile - GQA_TILE), -int(variant.values["stages"]), variant.name)
    away = max(tile, wanted_tile(shape)) // min(tile, wanted_tile(shape))
    ring = abs(variant.dynamic_smem_bytes - BYTES_IN_FLIGHT_PER_SM)
    return (passes_for(variant, shape), rows_per_cta(variant), away, ring, variant.name)


def plan_splits(*, work: int, tiles: int, slots: int, tile: int = TILE) -> int:
    """Number of splits that minimises waves × (tiles / n + overhead) + merge(n).

    work: CTAs of one split (batch × kv heads × passes); tiles: of `tile` keys, along the longest sequence; slots: CTAs
    that the device works on at full speed. Pure and monotone in nothing: the cost is evaluated for every n up to the
    tiles.
    """
    if tiles <= 1 or work < 1:
        return 1
    limit = min(tiles, max(1, 4 * slots // work), 1024)
    costs = {n: _split_cost(n, work=work, tiles=tiles, slots=slots, tile=tile) for n in range(1, limit + 1)}
    best = min(costs, key=lambda n: (costs[n], n))
    return normalise_splits(best, tiles=tiles)


def plan_ragged_splits(
    *, work: int, tiles: int, total_tiles: float, slots: int, resident: int, tile: int = TILE
) -> int:
    """Number of splits for sequences of several lengths, each of which is cut into as many.

    work, tiles, slots and tile: as of `plan_splits`; total_tiles: of all CTAs together; resident: CTAs that the device
    holds at once. CTAs take their places as others end, so the time is the whole work spread over the slots and, behind
    it, the longest piece: minimises total_tiles / slots + tiles / n + rounds of resident CTAs × overhead + merge(n).
    """
    if tiles <= 1 or work < 1:
        return 1

    def cost(splits: int) -> float:
        rounds = -(-work * splits // resident)
        return total_tiles / slots + -(-tiles // splits) + rounds * CTA_OVERHEAD_TILES + _merge_cost(splits, tile)

    best = min(range(1, min(tiles, MOST_RAGGED_SPLITS) + 1), key=lambda n: (cost(n), n))
    return normalise_splits(best, tiles=tiles)


def _split_cost(splits: int, *, work: int, tiles: int, slots: int, tile: int) -> float:
    waves = -(-work * splits // slots)
    return waves * (-(-tiles // splits) + CTA_OVERHEAD_TILES) + _merge_cost(splits, tile)


def _merge_cost(splits: int, tile: int) -> float:
    each, further = MERGE_TILES_WIDE if tile == WIDE_TILE else MERGE_TILES
    return each * min(splits, MERGE_AT_ONCE) + further * max(0, splits - MERGE_AT_ONCE)


def busy_ctas(variant: BuiltVariant) -> int:
    """CTAs of a variant that keep an SM busy: as many as hold BYTES_IN_FLIGHT_PER_SM in their tiles, and fit."""
    fitting = variant.blocks_per_sm or 1
    if variant.dynamic_smem_bytes == 0:
        return fitting
    return min(fitting, -(-BYTES_IN_FLIGHT_PER_SM // variant.dynamic_smem_bytes))


def normalise_splits(splits: int, *, tiles: int) -> int:
    """Fewest splits with the same tiles per split, so that none is empty at the planned length."""
    if tiles < 1:
        return 1
    tiles_per_split = -(-tiles // min(splits, tiles))
    return -(-tiles // tiles_per_split)


def plan_decode(
    shape: DecodeShape,
    variant: BuiltVariant,
    combine_variant: str,
    *,
    sm_count: int,
    num_splits: int | None = None,
) -> DecodePlan:
    """The launch for a shape: splits (given, or planned), grid and waves."""
    passes = passes_for(variant, shape)
    ctas = busy_ctas(variant)
    slots = sm_count * ctas
    work = shape.batch * shape.num_kv_heads * passes
    tiles = -(-shape.kv_len // tile_size(variant))
    if num_splits is None and shape.is_ragged and slots:
        assert shape.total_kv_len is not None  # ragged
        total_tiles = shape.total_kv_len / tile_size(variant) * shape.num_kv_heads * passes
        resident = sm_count * (variant.blocks_per_sm or 1)
        splits = plan_ragged_splits(
            work=work, tiles=tiles, total_tiles=total_tiles, slots=slots, resident=resident, tile=tile_size(variant)
        )
        reason = (
            f"{work} CTAs a split, at most {tiles} and on average {total_tiles / work:.1f} tiles, "
            f"on {sm_count} SMs × {ctas} CTAs"
        )
    elif num_splits is None:
        splits = plan_splits(work=work, tiles=tiles, slots=slots, tile=tile_size(variant))
        reason = f"{work} CTAs a split and {tiles} tiles on {sm_count} SMs × {ctas} CTAs"
    else:
        splits = num_splits
        reason = "num_splits as given"
    grid = (shape.num_kv_heads * passes, splits, shape.batch)
    return DecodePlan(
        operator_for(shape),
        variant.name,
        combine_variant,
        splits,
        grid,
        work * splits / slots if slots else 0.0,
        reason,
    )
