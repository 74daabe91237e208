"""The axes of a benchmark: sizes as people write them, and the cases that a list of values spans. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any, Literal, TypeVar, get_args

from sparkctl.errors import UsageError

L2Mode = Literal["cold", "hot"]
DTypeName = Literal["bf16", "fp16"]
DTYPES: tuple[str, ...] = get_args(DTypeName)
L2_MODES: tuple[str, ...] = get_args(L2Mode)
ELEMENT_BYTES = 2  # bf16 and fp16
LARGEST = 2**31 - 1

CASE_FORM = "batch x kv_len, heads, head_dim, as in 8 x 16k, 32/8, d128, or with more: …, bf16, pages of 16, hot L2"

_SHAPE = re.compile(r"(\S+)\s*[x×]\s*(\S+)")
_MORE: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("dtype", re.compile("|".join(DTYPES))),
    ("page_size", re.compile(r"pages of (\S+)")),
    ("qo_len", re.compile(r"qo_len (\S+)")),
    ("causal", re.compile(r"causal")),
    ("num_splits", re.compile(r"(\S+) splits")),
    ("l2", re.compile(r"(cold|hot) L2")),
)
_HEADS = re.compile(r"(\d+)(?:/(\d+))?", re.ASCII)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([km]?)", re.IGNORECASE)
_FACTORS = {"": 1, "k": 1024, "m": 1024 * 1024}
_Item = TypeVar("_Item")


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
    kv_len: int
    heads: Heads
    head_dim: int
    dtype: str = "bf16"
    qo_len: int = 1
    causal: bool = False
    num_splits: int | None = None
    l2: L2Mode = "cold"
    page_size: int | None = None  # None where K and V are contiguous

    @property
    def operator(self) -> Literal["decode", "paged_decode"]:
        """The operator, and the entry point, that runs the case."""
        return "decode" if self.page_size is None else "paged_decode"

    @property
    def pages(self) -> int:
        """Pages that hold the keys of one sequence; 0 where contiguous."""
        return 0 if self.page_size is None else -(-self.kv_len // self.page_size)

    @property
    def group(self) -> int:
        """Query heads that share one key/value head."""
        return self.heads.num_qo_heads // self.heads.num_kv_heads

    @property
    def label(self) -> str:
        """`1 × 16k, 32/8, d128, bf16`, with what is out of the ordinary behind it."""
        parts = [f"{self.batch} × {format_size(self.kv_len)}", str(self.heads), f"d{self.head_dim}", self.dtype]
        if self.page_size is not None:
            parts.append(f"pages of {self.page_size}")
        if self.qo_len != 1:
            parts.append(f"qo_len {self.qo_len}")
        if self.causal:
            parts.append("causal")
        if self.num_splits is not None:
            parts.append(f"{self.num_splits} splits")
        if self.l2 == "hot":
            parts.append("hot L2")
        return ", ".join(parts)


def span_cases(
    *,
    seqs: Sequence[int],
    batches: Sequence[int],
    heads: Sequence[Heads],
    head_dims: Sequence[int],
    dtypes: Sequence[str],
    qo_len: int = 1,
    causal: bool = False,
    num_splits: int | None = None,
    l2: L2Mode = "cold",
    page_sizes: Sequence[int | None] = (None,),
) -> tuple[DecodeCase, ...]:
    """Every combination, kv_len, batch and page size changing fastest, duplicates removed."""
    spans = product(dtypes, head_dims, heads, seqs, batches, page_sizes)
    cases = [
        DecodeCase(batch, seq, head, dim, dtype, qo_len, causal, num_splits, l2, page)
        for dtype, dim, head, seq, batch, page in spans
    ]
    for case in cases:
        check_causal(case)
    return tuple(dict.fromkeys(cases))


def check_causal(case: DecodeCase) -> None:
    """UsageError where the mask leaves a query nothing to attend to."""
    if case.causal and case.qo_len > case.kv_len:
        raise UsageError(
            f"--causal with qo_len {case.qo_len} and kv_len {case.kv_len} leaves queries without a key",
            hint="a kv_len of at least qo_len",
        )


def parse_size(text: str) -> int:
    """`16k` -> 16384, `1m` -> 1048576, `100` -> 100; UsageError for anything else or for a fraction of one."""
    match = _SIZE.fullmatch(text.strip())
    number = Fraction(match[1]) * _FACTORS[match[2].lower()] if match and len(text) <= 20 else Fraction(1, 2)
    if number.denominator != 1:
        raise UsageError(f"'{text}' is not a size", hint="a whole number, or one with k or m: 100, 16k, 1m")
    if number > LARGEST:
        raise UsageError(f"'{text}' is larger than {LARGEST}", hint="sizes are 32-bit integers")
    return int(number)


def format_size(number: int) -> str:
    """The shortest exact form: 16384 -> `16k`, 1000 -> `1000`."""
    for suffix in ("m", "k"):
        if number and number % _FACTORS[suffix] == 0:
            return f"{number // _FACTORS[suffix]}{suffix}"
    return str(number)


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


def parse_list(text: str, parse: Callable[[str], _Item], *, option: str) -> tuple[_Item, ...]:
    """A comma list through `parse`; UsageError naming the option when it is empty or has a value twice."""
    parts = [part for part in text.split(",") if part.strip()]
    if not parts:
        raise UsageError(f"{option} is empty", hint=f"a comma list, as in {option} 4k,16k")
    items: dict[_Item, str] = {}
    for part in map(str.strip, parts):
        item = parse(part)
        if item in items:
            same = "" if items[item] == part else f", as {items[item]} too"
            raise UsageError(f"{option}: {part} is written twice{same}", hint="each value once")
        items[item] = part
    return tuple(items)


def parse_case(text: str) -> tuple[DecodeCase, frozenset[str]]:
    """A label read back, and the fields that it states: dtype, qo_len, causal, num_splits and l2 may be left out.

    UsageError for anything that no label says, or says twice.
    """
    first, *parts = (part.strip() for part in text.split(","))
    shape = _SHAPE.fullmatch(first)
    if shape is None or len(parts) < 2 or not parts[1].startswith("d"):
        raise UsageError(f"'{text}' is not a case", hint=CASE_FORM)
    batch, kv_len = _positive(shape[1], "batch"), _positive(shape[2], "kv_len")
    case = DecodeCase(batch, kv_len, parse_heads(parts[0]), _positive(parts[1][1:], "head_dim"))
    stated = {"batch", "kv_len", "heads", "head_dim", "page_size"}
    seen: set[str] = set()
    for part in parts[2:]:
        field, value = _read_more(part)
        if field in seen:
            raise UsageError(f"'{part}': {field} is said twice", hint=CASE_FORM)
        seen.add(field)
        case = replace(case, **{field: value})
    return case, frozenset(stated | seen)


def _read_more(part: str) -> tuple[str, Any]:
    """What stands behind the shape: a field of DecodeCase and its value."""
    for field, pattern in _MORE:
        if match := pattern.fullmatch(part):
            if field == "causal":
                return field, True
            word = match[match.lastindex or 0]
            return field, word if field in ("dtype", "l2") else _positive(word, field)
    raise UsageError(f"'{part}' is nothing that a case says", hint=CASE_FORM)


def _positive(text: str, what: str) -> int:
    if (number := parse_size(text)) < 1:
        raise UsageError(f"{what} '{text}' is less than 1", hint=CASE_FORM)
    return number
