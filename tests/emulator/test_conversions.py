"""The emulator's own conversions are bit-equal to the formats' definition and to NVIDIA's host functions."""

from pathlib import Path

import numpy as np
import pytest
from programs import run_case


def widened(dtype: str) -> np.ndarray:
    patterns = np.arange(65536, dtype=np.uint32)
    if dtype == "bf16":
        return patterns << 16
    return patterns.astype(np.uint16).view(np.float16).astype(np.float32).view(np.uint32)


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_every_pattern_becomes_its_float(conversions: Path, dtype: str) -> None:
    outcome = run_case(conversions, f"widen_{dtype}")
    is_nan = np.isnan(widened(dtype).view(np.float32))
    assert outcome["differences"][0] == 0, "NVIDIA's host functions say otherwise"
    np.testing.assert_array_equal(outcome["floats"][~is_nan], widened(dtype)[~is_nan])
    assert np.isnan(outcome.view("floats", "<f4")[is_nan]).all()
    np.testing.assert_array_equal(outcome["unpacked"], outcome["floats"])


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_floats_round_as_nvidias_functions_do(conversions: Path, dtype: str) -> None:
    outcome = run_case(conversions, f"narrow_{dtype}")
    assert outcome["count"][0] > 200_000
    assert outcome["differences"][0] == 0
