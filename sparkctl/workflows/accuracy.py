"""Accuracy of attention kernels: error against fp64, the arms' bits, and what a model's answers make of them."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sparkctl.arch import Arch
from sparkctl.bench.ab import Bits
from sparkctl.bench.arms import count_differences
from sparkctl.bench.results import Stamp
from sparkctl.build import Progress, ensure_built, with_combines
from sparkctl.errors import UsageError
from sparkctl.interrupts import check_interrupt
from sparkctl.registry import Registry
from sparkctl.runtime import Library, load_library
from sparkctl.runtime.manifest import Backend
from sparkctl.testing.arms import AttentionArm, Bench, attend
from sparkctl.testing.local_model import LocalModel
from sparkctl.testing.local_model import exact_attention as exact_rounded
from sparkctl.testing.logits import KL_BAR, TOP1_BAR, LogitScore, score_logits
from sparkctl.testing.model_folder import ModelFacts
from sparkctl.testing.precision import AttentionShape, Precision, Problem, judge_outputs, make_problem, run_problems
from sparkctl.testing.reference import attention_reference, plain_emulation
from sparkctl.testing.stack import AttentionStack
from sparkctl.testing.suite import one_torch_thread
from sparkctl.workflows.accuracy_plan import HEADS, PAGE_SIZE, AccuracyRequest, plan_accuracy
from sparkctl.workflows.stamp import read_stamp

if TYPE_CHECKING:
    from torch import Tensor

DECODE_SHAPES = (AttentionShape((1500,)), AttentionShape((640, 17, 333)), AttentionShape((300, 129), qo_len=4))
PREFILL_SHAPES = (AttentionShape((200, 129), qo_len=129), AttentionShape((77,), qo_len=33))


@dataclass(frozen=True, slots=True)
class ArmReport:
    """What one arm gave; `bits` against the first arm of its group, None for that itself."""

    arm: AttentionArm
    precision: Precision
    bits: Bits | None
    score: LogitScore

    @property
    def passed(self) -> bool:
        return self.precision.passed and self.score.passed


@dataclass(frozen=True, slots=True)
class AccuracyReport:
    """Every arm, and what a plain implementation of the dtype gives for the same inputs."""

    request: AccuracyRequest
    backend: Backend
    device: str
    arms: tuple[ArmReport, ...]
    plain: Mapping[bool, tuple[Precision, LogitScore]]  # of decode (True) or prefill
    stamp: Stamp
    compiler: str
    tokens: str = ""  # of a model: where its tokens come from

    @property
    def passed(self) -> bool:
        return bool(self.arms) and all(arm.passed for arm in self.arms)


def reasons(arm: ArmReport) -> Sequence[str]:
    """Why an arm fails; empty where it passes."""
    score, found = arm.score, []
    if not arm.precision.passed:
        found.append(f"an output is off by {arm.precision.of_allowed:.2f} times what is allowed")
    if not score.positions:
        return [*found, "no position was scored"]
    if score.top1 < TOP1_BAR:
        found.append(f"top-1 agreement {score.top1:.3f} is below {TOP1_BAR:.2f}")
    if not score.kl_mean <= KL_BAR:
        found.append(f"the mean KL divergence {score.kl_mean:.2g} is above {KL_BAR:.2f}")
    return found


def run_accuracy(
    registry: Registry,
    request: AccuracyRequest,
    *,
    backend: Backend,
    device: str,
    arch: Arch,
    at_arm: Callable[[int, int, str], None] = lambda number, total, label: None,
    progress: Progress | None = None,
    environ: Mapping[str, str] = os.environ,
    others: Mapping[str, Library] | None = None,
) -> AccuracyReport:
    """Builds what is missing, runs every arm. UsageError where nothing asked for is an attention kernel.

    `others` are the libraries of arms, by label, that have their own.
    """
    try:
        plan = plan_accuracy(registry, request, arch)
    except UsageError as error:
        if request.model is None:
            raise
        raise UsageError(f"--model {request.model.folder}: {error.message}", hint=error.hint) from error
    on = "cuda" if backend == "cuda" else "cpu"
    answers = load_answers(request, on)
    folder = ensure_built(
        registry,
        with_combines(registry, plan.variants),
        arch=arch,
        backend=backend,
        profile=request.profile,
        sets=request.sets,
        environ=environ,
        progress=progress,
    )
    library = load_library(folder)
    if backend == "emulator":
        library.configure_emulator()
    benches = {
        label: Bench(one, "emulator" if backend == "emulator" else "auto", PAGE_SIZE)
        for label, one in {"": library, **(others or {})}.items()
    }
    judges: dict[bool, Judge] = {}
    reports: list[ArmReport] = []
    total = sum(len(group) for group in plan.groups)
    with one_torch_thread():
        for group in plan.groups:
            first: list[Tensor] | None = None
            for arm in group:
                check_interrupt()
                at_arm(len(reports) + 1, total, arm.label)
                if arm.is_decode not in judges:
                    judges[arm.is_decode] = Judge(request, arm.is_decode, on, answers)
                bench = benches.get(arm.library, benches[""])
                judge, attention = judges[arm.is_decode], functools.partial(attend, arm, bench)
                outputs = run_problems(judge.problems, attention)
                bits = None if first is None else count_differences(first, outputs)
                first = outputs if first is None else first
                reports.append(ArmReport(arm, judge.precision(outputs), bits, judge.score(attention)))
    return AccuracyReport(
        request,
        backend,
        device,
        tuple(reports),
        {is_decode: judge.plain for is_decode, judge in judges.items()},
        read_stamp(registry.root),
        library.manifest.compiler,
        answers.tokens,
    )


class Judge:
    """The inputs and references of decode, or of prefill."""

    def __init__(self, request: AccuracyRequest, is_decode: bool, device: str, answers: Answers) -> None:
        import torch

        self._is_decode, self._dtype, self._answers = is_decode, request.dtype, answers
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[request.dtype]
        shapes = DECODE_SHAPES if is_decode else PREFILL_SHAPES
        heads = (HEADS.num_qo_heads, HEADS.num_kv_heads)
        self.problems: Sequence[Problem] = [
            make_problem(shape, heads, request.head_dim, dtype, device, request.seed + number)
            for number, shape in enumerate(shapes)
        ]
        outputs = [problem.plain for problem in self.problems]
        self.plain = (self.precision(outputs), answers.score(is_decode, None))

    def precision(self, outputs: Sequence[Tensor]) -> Precision:
        return judge_outputs(self.problems, outputs, self._dtype)

    def score(self, attention: Callable[..., Tensor]) -> LogitScore:
        return self._answers.score(self._is_decode, attention)


class Answers(Protocol):
    """A model whose logits are judged, with one attention or another."""

    @property
    def tokens(self) -> str: ...

    def score(self, is_decode: bool, attention: Callable[..., Tensor] | None) -> LogitScore:
        """Decode: of the steps behind a prompt that the reference attends to. Prefill: of every position.

        Without an attention it is a plain implementation: what the dtype alone costs.
        """
        ...


class StackAnswers:
    """Of the seeded stack."""

    tokens = ""

    def __init__(self, request: AccuracyRequest, device: str) -> None:
        import torch

        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[request.dtype]
        self._stack = AttentionStack(request.stack, dtype, device, request.seed)
        self._reference = self._stack.prefill_logits(exact_attention)
        self._prompt = self._stack.prompt_caches(exact_attention)

    def score(self, is_decode: bool, attention: Callable[..., Tensor] | None) -> LogitScore:
        attend = attention or (lambda q, k, v: plain_emulation(q, k, v, causal=True))
        if not is_decode:
            return score_logits(self._stack.prefill_logits(attend), self._reference)
        steps = self._stack.decode_logits(attend, self._prompt)
        return score_logits(steps, self._stack.step_rows(self._reference))


class ModelAnswers:
    """Of a model in a folder; its plain implementation is torch SDPA."""

    def __init__(self, request: AccuracyRequest, facts: ModelFacts, device: str) -> None:
        self._model = LocalModel(
            facts, request.dtype, device, prompt=request.prompt, steps=request.steps, seed=request.seed
        )
        self.tokens = self._model.token_source
        self._references: dict[bool, Tensor] = {}

    def score(self, is_decode: bool, attention: Callable[..., Tensor] | None) -> LogitScore:
        logits = self._model.step_logits if is_decode else self._model.prefill_logits
        if is_decode not in self._references:
            self._references[is_decode] = logits(exact_rounded)
        return score_logits(logits(attention), self._references[is_decode])


def load_answers(request: AccuracyRequest, device: str) -> Answers:
    """The stack's, unless there is a model. UsageError and MissingTool as LocalModel."""
    return StackAnswers(request, device) if request.model is None else ModelAnswers(request, request.model, device)


def exact_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """fp64."""
    return attention_reference(q, k, v, causal=True)[0]
