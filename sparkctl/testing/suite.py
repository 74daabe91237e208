"""Runs a variant's cases on a library and judges every output; one pytest item a variant stands on this."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sparkctl.errors import SparkctlError
from sparkctl.interrupts import check_interrupt
from sparkctl.registry.model import Variant
from sparkctl.testing.compare import compare_outputs
from sparkctl.testing.model import Case, CombineCase, DecodeCase, MergeCase, OwnCase, PrefillCase, StreamCase
from sparkctl.testing.own import run_own
from sparkctl.testing.own_file import load_own_file
from sparkctl.testing.prepare import Prepared, Target, prepare_combine, prepare_decode, prepare_merge
from sparkctl.testing.prepare_prefill import prepare_prefill
from sparkctl.testing.results import CaseFailure, CaseSkip, Selection, VariantResult
from sparkctl.testing.stream import run_stream

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Outcome:
    """One case. `worst` is its error relative to what is allowed; a failure or skip says why."""

    worst: float = 0.0
    launches: int = 0
    failure: str | None = None
    skip: str | None = None
    device_lost: bool = False


def run_variant(
    target: Target, selection: Selection, on_case: Callable[[Case, Outcome], None] = lambda case, outcome: None
) -> VariantResult:
    """Run every case whatever fails, until the device is lost; `on_case` is told after each."""
    start = time.monotonic()
    outcomes: list[tuple[Case, Outcome]] = []
    with one_torch_thread():
        for case in selection.cases:
            outcome = run_case(target, selection.variant, case)
            check_interrupt()  # the library hands it back as an error like any other, which would count as a failure
            outcomes.append((case, outcome))
            on_case(case, outcome)
            if outcome.device_lost:
                break
    return variant_result(selection, outcomes, time.monotonic() - start)


def variant_result(selection: Selection, outcomes: Sequence[tuple[Case, Outcome]], seconds: float) -> VariantResult:
    """The outcomes of a variant's cases, in the order run, as one result."""
    ran = [(case, outcome) for case, outcome in outcomes if outcome.skip is None]
    worst = max(ran, key=lambda item: item[1].worst, default=None)
    return VariantResult(
        variant=selection.variant,
        case_ids=tuple(case.id for case, _ in ran),
        launches=sum(outcome.launches for _, outcome in ran),
        failures=tuple(CaseFailure(case.id, outcome.failure) for case, outcome in ran if outcome.failure),
        skips=tuple(CaseSkip(case.id, outcome.skip) for case, outcome in outcomes if outcome.skip is not None),
        worst=worst[1].worst if worst else 0.0,
        worst_case=worst[0].id if worst else None,
        seconds=seconds,
        device_lost=any(outcome.device_lost for _, outcome in outcomes),
    )


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """The references are many small operations: torch's threads would wait for each other and for the emulator's."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def run_case(target: Target, variant: Variant, case: Case) -> Outcome:
    """Run one case as often as the target repeats; an error of the operator is a failure of the case."""
    try:
        match case:
            case DecodeCase():
                return judge(target, prepare_decode(target, variant, case))
            case PrefillCase():
                return judge(target, prepare_prefill(target, variant, case))
            case CombineCase():
                return judge(target, prepare_combine(target, variant, case))
            case MergeCase():
                return judge(target, prepare_merge(target, variant, case))
            case StreamCase():
                return run_stream_case(target, variant, case)
            case OwnCase():
                return run_own_case(target, variant, case)
    except MemoryError as error:
        return Outcome(skip=str(error))
    except Exception as error:
        return Outcome(float("inf"), failure=f"{type(error).__name__}: {error}", device_lost=device_is_lost(target))


def judge(target: Target, prepared: Prepared) -> Outcome:
    """Compare the first run with the reference, and every further one with the first, bit by bit."""
    outcome, first = run_once(target, prepared)
    for turn in range(1, target.repeat):
        if outcome.failure:
            return outcome
        again, outputs = run_once(target, prepared)
        outcome = replace(outcome, launches=outcome.launches + again.launches, failure=again.failure)
        if not outcome.failure and not all(same_bits(a, b) for a, b in zip(first, outputs, strict=True)):
            return replace(outcome, worst=float("inf"), failure=f"run {turn + 1} gave other bits than the first")
    return outcome


def run_once(target: Target, prepared: Prepared) -> tuple[Outcome, list[Tensor]]:
    before = launch_count(target)
    outputs = prepared.call()
    launches = launch_count(target) - before
    out, lse = outputs.out.view, outputs.lse.view if outputs.lse else None
    comparison = compare_outputs(
        out,
        lse,
        expected_out=prepared.expected_out,
        expected_lse=prepared.expected_lse,
        plain_out=prepared.plain_out,
        dtype=prepared.dtype,
    )
    failure = launch_fault(target, launches, prepared.launches)
    if comparison.mismatch:
        failure = failure or str(comparison.mismatch)
    elif strays := outputs.stray_writes():
        failure = failure or f"{strays} elements were written outside of the outputs, or not at all"
    return Outcome(comparison.worst, launches, failure), [out] if lse is None else [out, lse]


def run_stream_case(target: Target, variant: Variant, case: StreamCase) -> Outcome:
    before = launch_count(target)
    failure = None
    for _ in range(target.repeat):
        failure = failure or run_stream(target, variant, case)
    launches = launch_count(target) - before
    failure = failure or launch_fault(target, launches, target.repeat)
    return Outcome(float("inf") if failure else 0.0, launches, failure)


def run_own_case(target: Target, variant: Variant, case: OwnCase) -> Outcome:
    """A kernel with its cases in a Python file; every further run must have the bits of the first."""
    assert variant.kernel.cases_file is not None
    before = launch_count(target)
    try:
        verdict = run_own(load_own_file(variant.kernel.cases_file), target, variant, case)
    except SparkctlError as error:
        return Outcome(float("inf"), failure=error.message, device_lost=device_is_lost(target))
    launches = launch_count(target) - before
    failure = verdict.failure
    if target.device == "cpu" and launches < target.repeat:
        failure = failure or f"the library launched {launches} kernels: the output is not the kernel's"
    return Outcome(verdict.worst, launches, failure)


def launch_count(target: Target) -> int:
    """Launches so far; the emulator counts them, a device does not."""
    return target.library.emulator_launch_count() if target.device == "cpu" else 0


def launch_fault(target: Target, launches: int, expected: int) -> str | None:
    """Proof that the kernel itself ran. On a device the poisoned output and the forced variant stand for it."""
    if launches == expected or target.device != "cpu":
        return None
    return f"the library launched {launches} kernels, {expected} were expected: the output is not the kernel's"


def same_bits(a: Tensor, b: Tensor) -> bool:
    import torch

    bits = torch.int16 if a.element_size() == 2 else torch.int32
    return torch.equal(a.contiguous().view(bits), b.contiguous().view(bits))


def device_is_lost(target: Target) -> bool:
    """Whether a fault has broken the device's context, so that every later call would fail too."""
    if target.device == "cpu":
        return False
    import torch

    try:
        torch.cuda.synchronize(target.device)
    except Exception:
        return True
    return False
