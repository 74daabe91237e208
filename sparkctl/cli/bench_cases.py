"""The options of `sparkctl bench` that make up a case, read: a span of their values, or cases of suites."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from sparkctl.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from sparkctl.bench.axes import DecodeCase, Heads, Keys, L2Mode

_Read = TypeVar("_Read")

CASE_PARAMETERS = (
    "seq",
    "seq_lens",
    "ragged",
    "seed",
    "batch",
    "heads",
    "head_dim",
    "dtype",
    "page_size",
    "qo_len",
    "causal",
    "prefill",
    "num_splits",
    "l2",
)


NOT_OF_SUITES = ("seq_lens", "ragged", "seed", "prefill")  # what a case of a suite always says itself


@dataclass(frozen=True, slots=True)
class Axes:
    """The values of each option."""

    seq: tuple[int, ...]
    batch: tuple[int, ...]
    ragged: tuple[Keys, ...]  # batches of several lengths, instead of seq and batch
    heads: tuple[Heads, ...]
    head_dim: tuple[int, ...]
    dtype: tuple[str, ...]
    page_size: tuple[int | None, ...]
    qo_len: tuple[int | None, ...]  # None: kv_len
    causal: bool
    num_splits: int | None
    l2: tuple[L2Mode, ...]
    prefill: bool = False

    def span(self) -> tuple[DecodeCase, ...]:
        """Every combination."""
        from sparkctl.bench.axes import same_keys, span_cases

        cases = span_cases(
            keys=self.ragged or same_keys(self.seq, self.batch),
            heads=self.heads,
            head_dims=self.head_dim,
            dtypes=self.dtype,
            page_sizes=self.page_size,
            qo_lens=self.qo_len,
            causal=self.causal,
            num_splits=self.num_splits,
            prefill=self.prefill,
        )
        return tuple(replace(case, l2=mode) for case in cases for mode in self.l2)

    def of_suites(self, project: Path | None, names: str, given: Collection[str]) -> tuple[DecodeCase, ...]:
        """The cases of these suites, a comma list; parameters that were `given` narrow them."""
        from sparkctl.bench.sizes import parse_list
        from sparkctl.bench.suites import find_suites, suite_cases
        from sparkctl.registry import find_project, load_registry

        if mixed := [f"--{name.replace('_', '-')}" for name in NOT_OF_SUITES if name in given]:
            raise UsageError(f"--suite takes no {', no '.join(mixed)}: its cases say it", hint="leave it out")
        suites = find_suites(load_registry(find_project(project)), parse_list(names, str.strip, option="--suite"))
        options = {
            "kv_len": self.seq,
            "batch": self.batch,
            "heads": self.heads,
            "head_dim": self.head_dim,
            "dtype": self.dtype,
            "page_size": self.page_size,
            "qo_len": self.qo_len,
            "causal": (self.causal,),
            "num_splits": (self.num_splits,),
            "l2": self.l2,
        }
        return suite_cases(suites, options, {"kv_len" if name == "seq" else name for name in given})


@dataclass(frozen=True, slots=True)
class Lengths:
    """`--seq-lens`, `--ragged` and `--seed` as typed, and which of the options beside them were given."""

    seq_lens: str | None
    ragged: str | None
    seed: int | None
    given: Collection[str] = ()


def _read_ragged(typed: Lengths, batches: tuple[int, ...]) -> tuple[Keys, ...]:
    """The batches of several lengths; none where nothing asks for them. UsageError where options contradict."""
    from sparkctl.bench.axes import drawn_keys, ragged_keys
    from sparkctl.bench.lengths import MAX_BATCH, parse_lengths, parse_spread

    if typed.seq_lens is not None and typed.ragged is not None:
        raise UsageError("--seq-lens and --ragged exclude each other", hint="one says the lengths, one draws them")
    if typed.seed is not None and typed.ragged is None:
        raise UsageError("--seed draws nothing without --ragged", hint="--ragged 128-16k --seed 1")
    option = "--seq-lens" if typed.seq_lens is not None else "--ragged"
    if (typed.seq_lens or typed.ragged) is not None and "seq" in typed.given:
        raise UsageError(f"--seq and {option} exclude each other", hint=f"leave out --seq: {option} says the lengths")
    if typed.seq_lens is not None:
        keys = _named("--seq-lens", lambda: ragged_keys(parse_lengths(typed.seq_lens or "")))
        if "batch" in typed.given and batches != (keys.batch,):
            raise UsageError(
                f"--batch {','.join(map(str, batches))}: --seq-lens has {keys.batch} lengths, and each is a sequence",
                hint=f"leave out --batch, or --batch {keys.batch}",
            )
        return (keys,)
    if typed.ragged is None:
        return ()
    if max(batches) > MAX_BATCH:
        raise UsageError(f"--batch {max(batches)}: at most {MAX_BATCH}", hint="a sequence is a row of the grid")
    spread = _named("--ragged", lambda: parse_spread(typed.ragged or "", typed.seed or 0))
    return tuple(drawn_keys(spread, batch) for batch in batches)


def _named(option: str, read: Callable[[], _Read]) -> _Read:
    try:
        return read()
    except UsageError as error:
        raise UsageError(f"{option}: {error.message}", hint=error.hint) from error


def read_axes(
    seq: str,
    batch: str,
    heads: str,
    head_dim: str,
    dtype: str,
    page_size: str | None,
    qo_len: str,
    causal: bool,
    num_splits: int | None,
    l2: str,
    lengths: Lengths,
    prefill: bool = False,
) -> Axes:
    """The options as typed; UsageError naming the one that is wrong."""
    from sparkctl.bench.axes import DTYPES, L2_MODES, parse_heads
    from sparkctl.bench.sizes import parse_list, parse_size
    from sparkctl.registry.suggest import did_you_mean

    def one_of(known: tuple[str, ...], option: str, text: str) -> str:
        if text not in known:
            raise UsageError(f"{option}: unknown value '{text}'", hint=did_you_mean(text, known))
        return text

    def positive(text: str, option: str = "") -> int:
        if (number := parse_size(text)) < 1:
            hint = "a benchmark needs a key, a query and a sequence at least" if option else None
            raise UsageError(f"{option}: '{text}' is less than 1".removeprefix(": "), hint=hint)
        return number

    def page(text: str) -> int | None:
        try:
            return None if text.strip() == "none" else positive(text)
        except UsageError as error:
            raise UsageError(
                f"--page-size: {error.message}", hint="keys of a page, as in 1,16,64; none: contiguous"
            ) from error

    modes = parse_list(l2, lambda text: one_of(L2_MODES, "--l2", text.strip()), option="--l2")
    batches = parse_list(batch, lambda text: positive(text, "--batch"), option="--batch")
    return Axes(
        seq=parse_list(seq, lambda text: positive(text, "--seq"), option="--seq"),
        batch=batches,
        ragged=_read_ragged(lengths, batches),
        heads=parse_list(heads, parse_heads, option="--heads"),
        head_dim=parse_list(head_dim, positive, option="--head-dim"),
        dtype=parse_list(dtype, lambda text: one_of(DTYPES, "--dtype", text.strip()), option="--dtype"),
        page_size=(None,) if page_size is None else parse_list(page_size, page, option="--page-size"),
        qo_len=(None,)
        if prefill and "qo_len" not in lengths.given
        else parse_list(qo_len, lambda text: positive(text, "--qo-len"), option="--qo-len"),
        causal=causal,
        num_splits=num_splits,
        l2=tuple("hot" if mode == "hot" else "cold" for mode in modes),
        prefill=prefill,
    )
