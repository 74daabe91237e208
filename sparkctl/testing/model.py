"""Test cases as frozen data: what each says, its readable id and the seed that follows from it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any, Literal

Layout = Literal["contiguous", "heads_first", "padded", "fused", "mixed", "huge_batch", "huge_len", "huge_heads"]
Grid = Literal["quick", "full", "device"]  # what `test` runs, what `test --full` runs on the emulator and on a device
Logits = Literal["unit", "large"]
# The mask's rank, and which of its axes broadcast: `row` one row for every query, `heads` one for each query head.
MaskKind = Literal["none", "rank2", "rank3", "rank3_row", "rank4", "rank4_row", "rank4_heads", "rank4_heads_row"]
SplitPattern = Literal[
    "live", "empty_first", "empty_middle", "empty_last", "one_live", "all_empty", "row_empty", "zero_sum", "far_apart"
]
StatePattern = Literal[
    "live", "empty_first", "empty_middle", "empty_last", "one_live", "all_empty", "row_empty", "far_apart"
]
StateLayout = Literal["contiguous", "heads_first", "padded", "states_inside"]


MMA_ROWS = 16  # query rows that a tensor-core tile holds, used or not


def padded_rows(rows: int) -> int:
    """Query rows with those that a kernel computes beside them."""
    return -(-rows // MMA_ROWS) * MMA_ROWS


@dataclass(frozen=True, slots=True)
class DecodeCase:
    """One call of a decode kernel.

    `slack` None passes no kv_lens: every sequence has the length that K and V have. A number passes kv_lens and makes
    K and V that many keys longer than the longest sequence; keys past a sequence's end hold NaN.
    With a page_size K and V lie in shuffled pages, `slack` is the number of table entries behind the longest sequence's
    last page, and unused entries hold an absurd page. Cases labelled `shared_pages` share their first page.
    `num_splits` None leaves the choice to the planner. `logits` "large" scales q so that |q·k| comes near 1e3.
    A `mask` shows six keys of ten and hides whole rows; labels that begin with `mask_` may ask for another one. Keys
    that a `window` hides from every query hold NaN, and table entries of such keys alone an absurd page.
    """

    kv_lens: tuple[int, ...]
    num_kv_heads: int = 1
    group: int = 1
    qo_len: int = 1
    num_splits: int | None = 1
    causal: bool = False
    layout: Layout = "contiguous"
    logits: Logits = "unit"
    return_lse: bool = True
    slack: int | None = None
    page_size: int | None = None
    window: int | None = None
    softcap: float | None = None
    mask: MaskKind = "none"
    sinks: bool = False
    label: str = ""

    def __post_init__(self) -> None:
        if self.page_size is not None and self.slack is None:
            raise ValueError("a paged case needs a slack: its lengths are always passed")
        if self.slack is None and len(set(self.kv_lens)) > 1:
            raise ValueError(f"ragged lengths {self.kv_lens} need a slack: without kv_lens all lengths are equal")

    @property
    def batch(self) -> int:
        return len(self.kv_lens)

    @property
    def num_qo_heads(self) -> int:
        return self.num_kv_heads * self.group

    @property
    def kv_capacity(self) -> int:
        """The length that K and V have in memory, or that the page table has room for."""
        if self.page_size is not None:
            return self.max_pages * self.page_size
        return max(self.kv_lens) + (self.slack or 0)

    @property
    def max_pages(self) -> int:
        """Entries of a row of the page table."""
        assert self.page_size is not None
        return -(-max(self.kv_lens) // self.page_size) + (self.slack or 0)

    @property
    def work(self) -> int:
        """Scores computed, padding among them: keys times query rows. The emulator's time is proportional to it."""
        keys = sum(length - first for length, first in zip(self.kv_lens, self.first_keys, strict=True))
        return keys * self.num_kv_heads * padded_rows(self.group * self.qo_len)

    @property
    def first_keys(self) -> tuple[int, ...]:
        """The first key of each sequence that some query may see."""
        if self.window is None:
            return (0,) * self.batch
        return tuple(max(0, length - self.qo_len - self.window) for length in self.kv_lens)

    @property
    def id(self) -> str:
        lens = str(self.kv_lens[0]) if self.slack is None else ".".join(map(str, self.kv_lens)) + f"+{self.slack}"
        splits = "auto" if self.num_splits is None else str(self.num_splits)
        parts = [
            self.label,
            f"b{self.batch}-kv{lens}-h{self.num_kv_heads}-g{self.group}-q{self.qo_len}-s{splits}",
            f"p{self.page_size}" if self.page_size is not None else "",
            "causal" if self.causal else "",
            self.layout if self.layout != "contiguous" else "",
            "large" if self.logits == "large" else "",
            f"w{self.window}" if self.window is not None else "",
            f"cap{self.softcap:g}" if self.softcap is not None else "",
            f"mask_{self.mask}" if self.mask != "none" else "",
            "sinks" if self.sinks else "",
            "lse" if self.return_lse else "",
        ]
        return "-".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class CombineCase:
    """One call of the combine kernel on made-up partials. `pattern` says which splits are empty, or what is odd."""

    batch: int
    qo_len: int
    num_qo_heads: int
    num_splits: int
    pattern: SplitPattern = "live"
    padded_out: bool = False
    sinks: bool = False
    label: str = ""

    @property
    def id(self) -> str:
        parts = [
            self.label,
            f"b{self.batch}-q{self.qo_len}-h{self.num_qo_heads}-s{self.num_splits}-{self.pattern}",
            "padded" if self.padded_out else "",
            "sinks" if self.sinks else "",
        ]
        return "-".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class MergeCase:
    """One merge of made-up states, each an out with its lse.

    `pattern` says which states saw no key (lse −inf; their out holds NaN), or what is odd. `in_place` writes the result
    over the first state.
    """

    batch: int
    qo_len: int
    num_qo_heads: int
    num_states: int
    pattern: StatePattern = "live"
    layout: StateLayout = "contiguous"
    in_place: bool = False
    label: str = ""

    @property
    def id(self) -> str:
        parts = [
            self.label,
            f"b{self.batch}-q{self.qo_len}-h{self.num_qo_heads}-n{self.num_states}-{self.pattern}",
            self.layout if self.layout != "contiguous" else "",
            "in_place" if self.in_place else "",
        ]
        return "-".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class StreamCase:
    """One read of `size_bytes` random bytes by a grid of `blocks`."""

    size_bytes: int
    blocks: int = 1

    @property
    def id(self) -> str:
        return f"bytes{self.size_bytes}-blocks{self.blocks}"


@dataclass(frozen=True, slots=True)
class PrefillCase:
    """One call of a prefill kernel.

    q is packed with qo_indptr where `packed_q`; else all sequences have the same qo_len. K and V are packed with
    kv_indptr where `packed_kv`, in pages with a page_size, and padded otherwise; `slack`, pages and labels mean what
    they mean to DecodeCase. A `mask` shows six keys of ten and hides whole rows, or all where labelled `mask_all_rows`.
    """

    qo_lens: tuple[int, ...]
    kv_lens: tuple[int, ...]
    num_kv_heads: int = 1
    group: int = 1
    packed_q: bool = False
    packed_kv: bool = False
    slack: int | None = None
    page_size: int | None = None
    causal: bool = False
    window: int | None = None
    softcap: float | None = None
    mask: MaskKind = "none"
    sinks: bool = False
    layout: Layout = "contiguous"
    logits: Logits = "unit"
    return_lse: bool = True
    label: str = ""

    def __post_init__(self) -> None:
        if len(self.qo_lens) != len(self.kv_lens):
            raise ValueError(f"{len(self.qo_lens)} query lengths and {len(self.kv_lens)} key lengths")
        if not self.packed_q and len(set(self.qo_lens)) > 1:
            raise ValueError(f"ragged queries {self.qo_lens} need packed_q")
        if self.packed_kv and (self.slack is not None or self.page_size is not None):
            raise ValueError("packed keys have neither slack nor pages")
        if self.page_size is not None and self.slack is None:
            raise ValueError("a paged case needs a slack: its lengths are always passed")
        if self.slack is None and not self.packed_kv and len(set(self.kv_lens)) > 1:
            raise ValueError(f"ragged lengths {self.kv_lens} need a slack or packed_kv")

    @property
    def batch(self) -> int:
        return len(self.kv_lens)

    @property
    def qo_len(self) -> int:
        """The longest query sequence."""
        return max(self.qo_lens)

    @property
    def num_qo_heads(self) -> int:
        return self.num_kv_heads * self.group

    @property
    def kv_capacity(self) -> int:
        """The keys that a sequence has room for; the longest sequence where packed."""
        if self.page_size is not None:
            return self.max_pages * self.page_size
        return max(self.kv_lens) + (self.slack or 0)

    @property
    def max_pages(self) -> int:
        """Entries of a row of the page table."""
        assert self.page_size is not None
        return -(-max(self.kv_lens) // self.page_size) + (self.slack or 0)

    @property
    def first_keys(self) -> tuple[int, ...]:
        """The first key of each sequence that some query may see."""
        if self.window is None:
            return (0,) * self.batch
        return tuple(max(0, kv - qo - self.window) for qo, kv in zip(self.qo_lens, self.kv_lens, strict=True))

    @property
    def work(self) -> int:
        """Scores, padding among them, as if nothing were hidden: the emulator's time is proportional to it."""
        lens = zip(self.qo_lens, self.kv_lens, strict=True)
        return sum(padded_rows(self.group * qo) * kv for qo, kv in lens) * self.num_kv_heads

    @property
    def id(self) -> str:
        queries = ".".join(map(str, self.qo_lens)) + "packed" if self.packed_q else str(self.qo_lens[0])
        keys = str(self.kv_lens[0])
        if self.packed_kv or self.slack is not None:
            keys = ".".join(map(str, self.kv_lens)) + ("packed" if self.packed_kv else f"+{self.slack}")
        parts = [
            self.label,
            f"b{self.batch}-q{queries}-kv{keys}-h{self.num_kv_heads}-g{self.group}",
            f"p{self.page_size}" if self.page_size is not None else "",
            "causal" if self.causal else "",
            self.layout if self.layout != "contiguous" else "",
            "large" if self.logits == "large" else "",
            f"w{self.window}" if self.window is not None else "",
            f"cap{self.softcap:g}" if self.softcap is not None else "",
            f"mask_{self.mask}" if self.mask != "none" else "",
            "sinks" if self.sinks else "",
            "lse" if self.return_lse else "",
        ]
        return "-".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class OwnCase:
    """One call of a kernel whose cases are in a Python file: what the file's cases() gave, by name."""

    values: tuple[tuple[str, Any], ...]

    @property
    def id(self) -> str:
        words = [name if value is True else f"{name}{value}" for name, value in self.values if value is not False]
        return "-".join(re.sub(r"[^A-Za-z0-9_.+]+", "_", word) for word in words) or "plain"


Case = DecodeCase | PrefillCase | CombineCase | MergeCase | StreamCase | OwnCase


def case_seed(case: Case, seed: int = 0) -> int:
    """The seed of a case's inputs: the same on every machine and in every Python, different for each case id."""
    digest = hashlib.blake2b(f"{seed}:{case.id}".encode(), digest_size=7).digest()
    return int.from_bytes(digest, "big")
