"""The options of `sparkctl bench` that make up a case, read: a span of their values, or cases of suites."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sparkctl.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from sparkctl.bench.axes import DecodeCase, Heads, L2Mode

CASE_PARAMETERS = (
    "seq",
    "batch",
    "heads",
    "head_dim",
    "dtype",
    "page_size",
    "qo_len",
    "causal",
    "num_splits",
    "l2",
)


@dataclass(frozen=True, slots=True)
class Axes:
    """The values of each option."""

    seq: tuple[int, ...]
    batch: tuple[int, ...]
    heads: tuple[Heads, ...]
    head_dim: tuple[int, ...]
    dtype: tuple[str, ...]
    page_size: tuple[int | None, ...]
    qo_len: int
    causal: bool
    num_splits: int | None
    l2: tuple[L2Mode, ...]

    def span(self) -> tuple[DecodeCase, ...]:
        """Every combination."""
        from sparkctl.bench.axes import span_cases

        cases = span_cases(
            seqs=self.seq,
            batches=self.batch,
            heads=self.heads,
            head_dims=self.head_dim,
            dtypes=self.dtype,
            page_sizes=self.page_size,
            qo_len=self.qo_len,
            causal=self.causal,
            num_splits=self.num_splits,
        )
        return tuple(replace(case, l2=mode) for case in cases for mode in self.l2)

    def of_suites(self, project: Path | None, names: str, given: Collection[str]) -> tuple[DecodeCase, ...]:
        """The cases of these suites, a comma list; parameters that were `given` narrow them."""
        from sparkctl.bench.axes import parse_list
        from sparkctl.bench.suites import find_suites, suite_cases
        from sparkctl.registry import find_project, load_registry

        suites = find_suites(load_registry(find_project(project)), parse_list(names, str.strip, option="--suite"))
        options = {
            "kv_len": self.seq,
            "batch": self.batch,
            "heads": self.heads,
            "head_dim": self.head_dim,
            "dtype": self.dtype,
            "page_size": self.page_size,
            "qo_len": (self.qo_len,),
            "causal": (self.causal,),
            "num_splits": (self.num_splits,),
            "l2": self.l2,
        }
        return suite_cases(suites, options, {"kv_len" if name == "seq" else name for name in given})


def read_axes(
    seq: str,
    batch: str,
    heads: str,
    head_dim: str,
    dtype: str,
    page_size: str | None,
    qo_len: int,
    causal: bool,
    num_splits: int | None,
    l2: str,
) -> Axes:
    """The options as typed; UsageError naming the one that is wrong."""
    from sparkctl.bench.axes import DTYPES, L2_MODES, parse_heads, parse_list, parse_size
    from sparkctl.registry.suggest import did_you_mean

    def one_of(known: tuple[str, ...], option: str, text: str) -> str:
        if text not in known:
            raise UsageError(f"{option}: unknown value '{text}'", hint=did_you_mean(text, known))
        return text

    def positive(text: str, option: str = "") -> int:
        if (number := parse_size(text)) < 1:
            hint = "a benchmark needs a key and a sequence at least" if option else None
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
    return Axes(
        seq=parse_list(seq, lambda text: positive(text, "--seq"), option="--seq"),
        batch=parse_list(batch, lambda text: positive(text, "--batch"), option="--batch"),
        heads=parse_list(heads, parse_heads, option="--heads"),
        head_dim=parse_list(head_dim, positive, option="--head-dim"),
        dtype=parse_list(dtype, lambda text: one_of(DTYPES, "--dtype", text.strip()), option="--dtype"),
        page_size=(None,) if page_size is None else parse_list(page_size, page, option="--page-size"),
        qo_len=qo_len,
        causal=causal,
        num_splits=num_splits,
        l2=tuple("hot" if mode == "hot" else "cold" for mode in modes),
    )
