"""Outputs of a case held against fp64 attention on the same inputs, by the tolerance of the tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sparkctl.bench.axes import DecodeCase
from sparkctl.bench.session import Verdict
from sparkctl.ops.options import AttentionOptions

if TYPE_CHECKING:
    import torch

SPAN = 64  # query positions that are compared with the reference at a time


def verify_outputs(
    case: DecodeCase,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    outputs: Sequence[torch.Tensor],
    options: AttentionOptions | None = None,
    lse: torch.Tensor | None = None,
) -> list[Verdict]:
    """Each output against the fp64 reference on the same inputs, by the tolerance of the tests; `lse` of the first.

    One sequence at a time, and of many query positions a few spans, since fp64 scores of all of them might not fit.
    """
    from sparkctl.testing.compare import compare_outputs
    from sparkctl.testing.reference import attention_reference, plain_emulation

    verdicts = [Verdict(0.0, "nothing to compare")] * len(outputs)
    asked: dict[str, Any] = {"causal": case.causal}
    if options is not None:
        asked |= {"window": options.window, "softcap": options.softcap, "sinks": options.sinks}
    for b, length in enumerate(case.lengths):
        for first, end in checked_spans(case.qo_len):
            rows = (slice(b, b + 1), slice(first, end))
            # The last query of a span stands at the last of these keys, as the mask wants it.
            keys = (rows[0], slice(length - case.qo_len + end if case.causal else length))
            expected, expected_lse = attention_reference(q[rows], k[keys], v[keys], **asked)
            plain = plain_emulation(q[rows], k[keys], v[keys], **asked)
            for index, out in enumerate(outputs):
                found = compare_outputs(
                    out[rows],
                    lse[rows] if lse is not None and index == 0 else None,
                    expected_out=expected,
                    expected_lse=expected_lse,
                    plain_out=plain,
                    dtype=case.dtype,
                )
                if found.worst >= verdicts[index].worst:
                    where = f"sequence {b}" if case.qo_len <= SPAN else f"sequence {b}, positions from {first} on"
                    text = f"{where}: {found.mismatch}" if found.mismatch else f"{found.worst:.2f} of what is allowed"
                    verdicts[index] = Verdict(found.worst, text)
    return verdicts


def checked_spans(qo_len: int) -> list[tuple[int, int]]:
    """Query positions that are compared: all of them, or the first, middle and last SPAN."""
    if qo_len <= SPAN:
        return [(0, qo_len)]
    starts = dict.fromkeys((0, (qo_len - SPAN) // 2, qo_len - SPAN))
    return [(start, start + SPAN) for start in starts]
