"""Top-1 agreement and KL divergence of logits, and their bars."""

import math

import pytest
import torch

from sparkctl.testing.logits import KL_BAR, NOTHING_SCORED, TOP1_BAR, LogitScore, score_logits


def test_equal_logits_agree_whatever_their_offset() -> None:
    reference = torch.randn(5, 7, dtype=torch.float64)
    score = score_logits(reference + torch.arange(5)[:, None], reference)
    assert (score.positions, score.top1) == (5, 1.0)
    assert score.kl_max < 1e-12
    assert score.passed


def test_the_divergence_is_that_of_the_reference_from_what_is_judged() -> None:
    p, q = torch.tensor([[0.5, 0.5]], dtype=torch.float64), torch.tensor([[0.75, 0.25]], dtype=torch.float64)
    expected = 0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(0.5 / 0.25)
    assert score_logits(q.log(), p.log()).kl_mean == pytest.approx(expected)


def test_top1_counts_positions() -> None:
    reference = torch.eye(4).repeat(5, 1) * 9
    other = reference.clone()
    other[3], other[7] = other[2].clone(), other[4].clone()
    score = score_logits(other, reference)
    assert score.top1 == pytest.approx(18 / 20)
    assert score.kl_max > score.kl_mean > 0


def test_the_bars_are_met_at_their_very_values_and_by_nothing_beyond() -> None:
    assert LogitScore(10, TOP1_BAR, KL_BAR, 3.0).passed
    assert not LogitScore(10, TOP1_BAR - 1e-9, 0.0, 0.0).passed
    assert not LogitScore(10, 1.0, KL_BAR + 1e-9, 3.0).passed
    assert not LogitScore(10, 1.0, math.nan, math.nan).passed


def test_no_position_is_a_failure() -> None:
    assert score_logits(torch.empty(0, 4), torch.empty(0, 4)) == NOTHING_SCORED
    assert not NOTHING_SCORED.passed


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_position_that_is_not_finite_agrees_with_nothing(value: float) -> None:
    reference = torch.zeros(10, 3)
    reference[:, 0] = 1
    broken = reference.clone()
    broken[4, 1] = value
    score = score_logits(broken, reference)
    assert (score.top1, score.kl_max) == (pytest.approx(0.9), math.inf)
    assert not score.passed


def test_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"logits have shape \[2, 3\], accepted is \[2, 4\]"):
        score_logits(torch.zeros(2, 3), torch.zeros(2, 4))
