"""Which cases each kernel is tested with."""

from __future__ import annotations

from collections.abc import Callable

from sparkctl.errors import UsageError
from sparkctl.registry.model import Kernel, Variant
from sparkctl.testing.combine_cases import combine_cases
from sparkctl.testing.decode_cases import decode_cases
from sparkctl.testing.merge_cases import merge_cases
from sparkctl.testing.model import Case, CombineCase, DecodeCase, Grid, MergeCase, OwnCase, PrefillCase, StreamCase
from sparkctl.testing.own_file import load_own_file
from sparkctl.testing.paged_cases import paged_cases
from sparkctl.testing.prefill_cases import paged_prefill_cases, prefill_cases


def stream_cases(grid: Grid) -> tuple[StreamCase, ...]:
    """Sizes around one load, one block's loads and one turn of the grid; grids of one, few and too many blocks."""
    sizes = (0, 16, 32, 48, 112, 128, 256, 4080, 4096, 4112, 32752, 32768, 65520, 65536, 131088)
    cases = [StreamCase(size, blocks) for size in sizes for blocks in (1, 3)]
    cases += [StreamCase(1 << 20, 7), StreamCase(4112, 40)]
    if grid != "quick":
        cases += [StreamCase(size, 5) for size in (1008, 20480, 20496, 81920, 163856)]
    if grid == "device":
        cases += [StreamCase((1 << 28) + 16, 264), StreamCase(1 << 26, 1000)]
    return tuple(cases)


CASES: dict[str, Callable[[Grid], tuple[Case, ...]]] = {
    "attn_decode_split_kv": decode_cases,
    "attn_decode_split_kv_mma": decode_cases,
    "attn_paged_decode_split_kv": paged_cases,
    "attn_paged_decode_split_kv_mma": paged_cases,
    "fa_split_gqa": decode_cases,
    "attn_prefill_split_q": prefill_cases,
    "attn_prefill_split_q_mma": prefill_cases,
    "attn_combine": combine_cases,
    "attn_merge_states": merge_cases,
    "stream_read": stream_cases,
}
# In place of the above for the variants of a kernel that is compiled for either kind of K and V.
PAGED_CASES: dict[str, Callable[[Grid], tuple[Case, ...]]] = {
    "fa_split_gqa": paged_cases,
    "attn_prefill_split_q": paged_prefill_cases,
    "attn_prefill_split_q_mma": paged_prefill_cases,
}


def has_cases(kernel: Kernel) -> bool:
    """Whether there are cases for it: in a Python file, its own here, or another kernel's that flags.yaml names."""
    return kernel.cases_file is not None or (kernel.cases or kernel.name) in kernels_with_cases()


def kernels_with_cases() -> frozenset[str]:
    """The kernels that have test cases; the registry's check asks for every other kernel."""
    return frozenset(CASES)


def cases_for(variant: Variant, grid: Grid = "quick") -> tuple[Case, ...]:
    """The variant's cases that lie inside what flags.yaml says its kernel accepts. UsageError if it has none."""
    kernel = variant.kernel
    if kernel.cases_file is not None:
        return tuple(case for case in load_own_file(kernel.cases_file).cases(grid) if accepted(kernel, case))
    listed = kernel.cases or kernel.name
    if listed not in CASES:
        raise UsageError(
            f"{kernel.location}: {kernel.name} has no test cases",
            hint="write them in a Python file and name it by cases: in flags.yaml (docs/own-kernels.md)",
        )
    make = PAGED_CASES[listed] if dict(variant.values).get("paged") else CASES[listed]
    return tuple(case for case in make(grid) if accepted(kernel, case))


def accepted(kernel: Kernel, case: Case) -> bool:
    """Whether every value of the case is in the kernel's accepted ranges."""
    for name, accepts in kernel.accepts.items():
        for value in run_time_values(case, name):
            if value < accepts.start or (accepts.stop is not None and value > accepts.stop):
                return False
    return True


def run_time_values(case: Case, name: str) -> tuple[int, ...]:
    """The case's values of an `accepts` entry; empty where the case leaves it to the planner or does not know it."""
    match case:
        case DecodeCase():
            values = {
                "group": (case.group,),
                "qo_len": (case.qo_len,),
                "kv_len": (*case.kv_lens, case.kv_capacity),
                "page_size": () if case.page_size is None else (case.page_size,),
                "num_splits": () if case.num_splits is None else (case.num_splits,),
            }
        case PrefillCase():
            values = {
                "group": (case.group,),
                "qo_len": case.qo_lens,
                "kv_len": (*case.kv_lens, case.kv_capacity),
                "page_size": () if case.page_size is None else (case.page_size,),
            }
        case CombineCase():
            values = {"qo_len": (case.qo_len,), "num_splits": (case.num_splits,)}
        case MergeCase():
            values = {"qo_len": (case.qo_len,), "num_states": (case.num_states,)}
        case StreamCase():
            values = {"bytes": (case.size_bytes,)}
        case OwnCase():
            values = {name: (value,) for name, value in case.values if isinstance(value, int)}
    return values.get(name, ())
