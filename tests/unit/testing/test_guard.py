"""Guarded outputs: a write outside and an element left out both show."""

import pytest
import torch

from sparkctl.testing.guard import MARGIN, Outputs, guarded, guarded_output, guarded_partials

LAYOUTS = ["contiguous", "heads_first", "padded", "fused", "mixed"]


def outputs(layout="contiguous"):
    return Outputs(
        guarded_output((2, 2, 3, 32), "bf16", layout, "cpu"),
        guarded((2, 2, 3), torch.float32, "cpu"),
        guarded_partials((2, 2, 3, 4), 32, "cpu"),
    )


def written(layout="contiguous"):
    result = outputs(layout)
    assert result.out.view.isnan().all()
    result.out.view.fill_(1)
    result.lse.view.fill_(float("-inf"))
    return result


@pytest.mark.parametrize("layout", LAYOUTS)
def test_outputs_written_in_full_have_no_fault_and_keep_their_alignment(layout):
    result = written(layout)
    assert result.stray_writes() == 0
    assert result.out.view.data_ptr() % 16 == 0
    assert all(stride * 2 % 16 == 0 for stride in result.out.view.stride()[:-1])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("where", [0, MARGIN - 1, -MARGIN, -1])
def test_a_write_beside_out_is_seen(layout, where):
    result = written(layout)
    result.out.storage[where] = 0
    assert result.stray_writes() == 1


def test_a_write_between_padded_rows_is_seen():
    result = written("padded")
    result.out.storage[MARGIN + 33] = 0
    assert result.stray_writes() == 1


def test_elements_left_unwritten_are_seen():
    result = outputs()
    result.out.view[:1].fill_(1)
    result.lse.view.fill_(0)
    assert result.stray_writes() == result.out.view[1:].numel()


def test_an_lse_left_unwritten_is_seen():
    result = written()
    result.lse.view[0, 0, 0] = float("nan")
    assert result.stray_writes() == 1


@pytest.mark.parametrize("part", [0, 1, 2])
def test_a_write_beside_the_partials_is_seen_and_unwritten_partials_are_allowed(part):
    result = written()
    assert result.partials[part].view.isnan().all()
    result.partials[part].storage[-MARGIN] = 0
    assert result.stray_writes() == 1
