"""mma.m16n8k16 against a product in float64, ldmatrix against its layout."""

from pathlib import Path

import numpy as np
import pytest
from products import ROUNDINGS, product, widen
from programs import run_case


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("kernel", ["mma", "ldmatrix_mma"])
def test_mma_is_the_product_within_its_roundings(matrix: Path, dtype: str, kernel: str) -> None:
    outcome = run_case(matrix, f"{kernel}_{dtype}")
    got, expected, magnitude = product(outcome, dtype)
    assert np.abs(got - expected).max() > 0, "numbers that need no rounding test nothing"
    assert (np.abs(got - expected) <= ROUNDINGS * 2.0**-24 * magnitude).all()


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_mma_of_small_integers_is_exact(matrix: Path, dtype: str) -> None:
    got, expected, _ = product(run_case(matrix, f"mma_{dtype}_integers"), dtype)
    np.testing.assert_array_equal(got, expected)


def test_mma_keeps_fp16_subnormals(matrix: Path) -> None:
    outcome = run_case(matrix, "mma_fp16_subnormals")
    got, expected, magnitude = product(outcome, "fp16")
    assert (np.abs(widen(outcome["a"], "fp16")) < 2.0**-14).any()
    assert (np.abs(got - expected) <= ROUNDINGS * 2.0**-24 * magnitude).all()


@pytest.mark.parametrize("schedule", ["ascending", "descending", "random"])
def test_ldmatrix_gives_each_lane_the_elements_of_its_layout(matrix: Path, schedule: str) -> None:
    outcome = run_case(matrix, "ldmatrix", schedule=schedule)
    tiles = outcome["in"].reshape(64, 8)
    rows = outcome["rows"]
    got = iter(outcome["out"].reshape(14, 32))
    for transposed in (False, True):
        for matrices in (1, 2, 4):
            for i in range(matrices):
                tile = tiles[rows[8 * i : 8 * i + 8]]
                tile = (tile.T if transposed else tile).astype(np.uint32)
                pairs = tile[:, ::2] | tile[:, 1::2] << 16
                expected = [pairs[lane // 4, lane % 4] for lane in range(32)]
                np.testing.assert_array_equal(next(got), expected)
