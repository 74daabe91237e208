"""The axes of a benchmark: sizes as people write them, and the cases that a list of values spans. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal, get_args

from sparkctl.bench.lengths import Spread, draw_lengths, format_lengths, parse_lengths, parse_spread
from sparkctl.bench.sizes import LARGEST, format_size, parse_size
from sparkctl.errors import UsageError

L2Mode = Literal["cold", "hot"]
Operator = Literal["decode", "paged_decode", "prefill"]
DTypeName = Literal["bf16", "fp16"]
DTYPES: tuple[str, ...] = get_args(DTypeName)
L2_MODES: tuple[str, ...] = get_args(L2Mode)
ELEMENT_BYTES = 2  # bf16 and fp16
ROOM = 128  # keys: a contiguous cache of several lengths has room for a multiple of them, as caches have

CASE_FORM = (
    "batch x kv_len, heads, head_dim, as in 8 x 16k, 32/8, d128, or with more: …, bf16, pages of 16, hot L2; "
    "kv_len may be lengths, 1k+16k or 3*1k+16k, or a range to draw from, 128-16k"
)

_SHAPE = re.compile(r"(\S+)\s*[x×]\s*(\S+)")
_MORE: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("dtype", re.compile("|".join(DTYPES))),
    ("page_size", re.compile(r"pages of (\S+)")),
    ("qo_len", re.compile(r"qo_len (\S+)")),
    ("causal", re.compile(r"causal")),
    ("prefill", re.compile(r"prefill")),
    ("num_splits", re.compile(r"(\S+) splits")),
    ("l2", re.compile(r"(cold|hot) L2")),
    ("seed", re.compile(r"seed (\S+)")),
)
_HEADS = re.compile(r"(\d+)(?:/(\d+))?", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Heads:
    """Query heads over key/value heads; prints as `32/8`."""

    num_qo_heads: int
    num_kv_heads: int

    def __str__(self) -> str:
        return f"{self.num_qo_heads}/{self.num_kv_heads}"


@dataclass(frozen=True, slots=True)
class DecodeCase:
    """One decode that is measured. `num_splits` None leaves the choice to the operator."""

    batch: int
    kv_len: int  # of the longest sequence
    heads: Heads
    head_dim: int
    dtype: str = "bf16"
    qo_len: int = 1
    causal: bool = False
    num_splits: int | None = None
    l2: L2Mode = "cold"
    page_size: int | None = None  # None where K and V are contiguous
    kv_lens: tuple[int, ...] | None = None  # of each sequence, where they are given; None: all kv_len
    spread: Spread | None = None  # what kv_lens were drawn from
    prefill: bool = False  # the operator prefill, whatever qo_len is

    @property
    def operator(self) -> Operator:
        """The operator, and the entry point, that runs the case."""
        if self.prefill:
            return "prefill"
        return "decode" if self.page_size is None else "paged_decode"

    @property
    def lengths(self) -> tuple[int, ...]:
        """Keys of each sequence."""
        return (self.kv_len,) * self.batch if self.kv_lens is None else self.kv_lens

    @property
    def has_lengths(self) -> bool:
        """Whether a call gets the length of each sequence."""
        return self.page_size is not None or self.kv_lens is not None

    @property
    def total_keys(self) -> int:
        """Of all sequences."""
        return sum(self.lengths)

    @property
    def room(self) -> int:
        """Keys of a sequence that contiguous K and V have room for."""
        return self.kv_len if self.kv_lens is None else -(-self.kv_len // ROOM) * ROOM

    @property
    def pages(self) -> int:
        """Pages that hold the keys of the longest sequence; 0 where contiguous."""
        return 0 if self.page_size is None else -(-self.kv_len // self.page_size)

    @property
    def total_pages(self) -> int:
        """Pages that hold the keys of all sequences; 0 where contiguous."""
        return 0 if self.page_size is None else sum(-(-length // self.page_size) for length in self.lengths)

    @property
    def group(self) -> int:
        """Query heads that share one key/value head."""
        return self.heads.num_qo_heads // self.heads.num_kv_heads

    @property
    def shape(self) -> str:
        """`1 × 16k`, `3 × 128+1k+16k`, or `16 × 128-16k` where the lengths were drawn."""
        if self.spread is not None:
            return f"{self.batch} × {self.spread}"
        return f"{self.batch} × {format_size(self.kv_len) if self.kv_lens is None else format_lengths(self.kv_lens)}"

    @property
    def label(self) -> str:
        """`1 × 16k, 32/8, d128, bf16`, with what is out of the ordinary behind it."""
        parts = [self.shape, str(self.heads), f"d{self.head_dim}", self.dtype]
        if self.page_size is not None:
            parts.append(f"pages of {self.page_size}")
        if self.prefill:
            parts.append("prefill")
        if self.qo_len != (self.kv_len if self.prefill else 1):
            parts.append(f"qo_len {self.qo_len}")
        if self.causal:
            parts.append("causal")
        if self.num_splits is not None:
            parts.append(f"{self.num_splits} splits")
        if self.l2 == "hot":
            parts.append("hot L2")
        if self.spread is not None and self.spread.seed:
            parts.append(f"seed {self.spread.seed}")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Keys:
    """The lengths of one batch: all `kv_len`, or each its own."""

    batch: int
    kv_len: int
    kv_lens: tuple[int, ...] | None = None
    spread: Spread | None = None


def same_keys(seqs: Sequence[int], batches: Sequence[int]) -> tuple[Keys, ...]:
    """Every batch at every length."""
    return tuple(Keys(batch, seq) for seq, batch in product(seqs, batches))


def ragged_keys(lengths: tuple[int, ...]) -> Keys:
    """A sequence of each length, in their order."""
    return Keys(len(lengths), max(lengths), lengths)


def drawn_keys(spread: Spread, batch: int) -> Keys:
    """As many sequences as `batch` says, their lengths drawn."""
    lengths = draw_lengths(spread, batch)
    return Keys(batch, max(lengths), lengths, spread)


def span_cases(
    *,
    keys: Sequence[Keys],
    heads: Sequence[Heads],
    head_dims: Sequence[int],
    dtypes: Sequence[str],
    qo_lens: Sequence[int | None] = (1,),
    causal: bool = False,
    num_splits: int | None = None,
    l2: L2Mode = "cold",
    page_sizes: Sequence[int | None] = (None,),
    prefill: bool = False,
) -> tuple[DecodeCase, ...]:
    """Every combination, the keys and the page size changing fastest, duplicates removed. qo_len None is kv_len."""
    spans = product(dtypes, head_dims, heads, qo_lens, keys, page_sizes)
    cases = [
        DecodeCase(
            k.batch,
            k.kv_len,
            head,
            dim,
            dtype,
            k.kv_len if qo_len is None else qo_len,
            causal,
            num_splits,
            l2,
            page,
            k.kv_lens,
            k.spread,
            prefill,
        )
        for dtype, dim, head, qo_len, k, page in spans
    ]
    for case in cases:
        check_case(case)
    return tuple(dict.fromkeys(cases))


def equal_case(case: DecodeCase) -> DecodeCase | None:
    """The case of one length for all that has as many keys, up to half a key a sequence; None if it is one itself."""
    if case.kv_lens is None:
        return None
    return replace(case, kv_len=max(1, round(case.total_keys / case.batch)), kv_lens=None, spread=None)


def with_equal_cases(cases: Sequence[DecodeCase]) -> tuple[DecodeCase, ...]:
    """Behind every ragged case its `equal_case`, each case once."""
    both = ((case, equal_case(case)) for case in cases)
    return tuple(dict.fromkeys(case for pair in both for case in pair if case is not None))


def check_case(case: DecodeCase) -> None:
    """UsageError where a mask leaves a query nothing to attend to, and for what prefill has not."""
    if case.prefill and case.kv_lens is not None:
        raise UsageError(f"{case.label}: bench has no prefill of several lengths", hint="--seq, or leave out --prefill")
    if case.prefill and case.num_splits is not None:
        raise UsageError(f"{case.label}: prefill divides no keys", hint="leave out --num-splits")
    shortest = min(case.lengths)
    if case.causal and case.qo_len > shortest:
        raise UsageError(
            f"--causal with qo_len {case.qo_len} and kv_len {shortest} leaves queries without a key",
            hint="a kv_len of at least qo_len",
        )


def parse_heads(text: str) -> Heads:
    """`32/8` is 32 query heads over 8 key/value heads; `32` is 32/32. UsageError unless the first divides evenly."""
    match = _HEADS.fullmatch(text.strip()) if len(text) <= 40 else None
    if match is None:
        raise UsageError(f"'{text}' is not a pair of heads", hint="query heads / kv heads, as in 32/8")
    heads = Heads(int(match[1]), int(match[2] or match[1]))
    if max(heads.num_qo_heads, heads.num_kv_heads) > LARGEST:
        raise UsageError(f"'{text}' has more than {LARGEST} heads", hint="heads are 32-bit integers")
    if heads.num_kv_heads < 1 or heads.num_qo_heads < 1 or heads.num_qo_heads % heads.num_kv_heads:
        raise UsageError(
            f"{text}: {heads.num_qo_heads} query heads cannot be shared by {heads.num_kv_heads} kv heads",
            hint="the kv heads must divide the query heads",
        )
    return heads


def parse_case(text: str) -> tuple[DecodeCase, frozenset[str]]:
    """A label read back, and the fields that it states: dtype, qo_len, causal, num_splits and l2 may be left out.

    UsageError for anything that no label says, or says twice.
    """
    first, *parts = (part.strip() for part in text.split(","))
    shape = _SHAPE.fullmatch(first)
    if shape is None or len(parts) < 2 or not parts[1].startswith("d"):
        raise UsageError(f"'{text}' is not a case", hint=CASE_FORM)
    batch, heads = _positive(shape[1], "batch"), parse_heads(parts[0])
    more: dict[str, Any] = {}
    for part in parts[2:]:
        field, value = _read_more(part)
        if field in more:
            raise UsageError(f"'{part}': {field} is said twice", hint=CASE_FORM)
        more[field] = value
    keys = _read_keys(batch, shape[2], more.pop("seed", None))
    if "prefill" in more:
        more = {"qo_len": keys.kv_len, **more}
    case = DecodeCase(batch, keys.kv_len, heads, _positive(parts[1][1:], "head_dim"))
    case = replace(case, kv_lens=keys.kv_lens, spread=keys.spread, **more)
    return case, frozenset({"batch", "kv_len", "heads", "head_dim", "page_size", *more})


def _read_keys(batch: int, text: str, seed: int | None) -> Keys:
    """`16k`, `1k+16k` or `128-16k`."""
    if "-" in text:
        return drawn_keys(parse_spread(text, seed or 0), batch)
    if seed is not None:
        raise UsageError(f"seed {seed}: '{text}' is not drawn", hint=CASE_FORM)
    if "+" not in text and "*" not in text:
        return Keys(batch, _positive(text, "kv_len"))
    lengths = parse_lengths(text, "+")
    if len(lengths) != batch:
        raise UsageError(f"'{text}' is {len(lengths)} lengths, and the batch is {batch}", hint=CASE_FORM)
    return ragged_keys(lengths)


def _read_more(part: str) -> tuple[str, Any]:
    """What stands behind the shape: a field of DecodeCase and its value."""
    for field, pattern in _MORE:
        if match := pattern.fullmatch(part):
            if field in ("causal", "prefill"):
                return field, True
            word = match[match.lastindex or 0]
            if field == "seed":
                return field, parse_size(word)
            return field, word if field in ("dtype", "l2") else _positive(word, field)
    raise UsageError(f"'{part}' is nothing that a case says", hint=CASE_FORM)


def _positive(text: str, what: str) -> int:
    if (number := parse_size(text)) < 1:
        raise UsageError(f"{what} '{text}' is less than 1", hint=CASE_FORM)
    return number
