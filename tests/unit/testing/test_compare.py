"""The tolerance rule: it passes what rounding explains and fails every planted error."""

import math

import pytest
import torch

from sparkctl.testing.compare import Comparison, compare_outputs, ulp
from sparkctl.testing.reference import attention_reference, plain_emulation


@pytest.fixture(params=["bf16", "fp16"])
def case(request):
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[request.param]
    generator = torch.Generator().manual_seed(11)
    q = torch.randn(2, 2, 8, 64, generator=generator).to(dtype)
    k, v = (torch.randn(2, 300, 2, 64, generator=generator).to(dtype) for _ in range(2))
    lens = torch.tensor([300, 0], dtype=torch.int32)
    out, lse = attention_reference(q, k, v, kv_lens=lens)
    plain = plain_emulation(q, k, v, kv_lens=lens)
    return {"q": q, "k": k, "v": v, "lens": lens, "expected": (out, lse, plain), "dtype": request.param}


def compare(case, out=None, lse=None) -> Comparison:
    expected_out, expected_lse, plain = case["expected"]
    return compare_outputs(
        plain.clone() if out is None else out,
        lse,
        expected_out=expected_out,
        expected_lse=expected_lse,
        plain_out=plain,
        dtype=case["dtype"],
    )


def test_the_rounded_reference_passes(case):
    out, lse, plain = case["expected"]
    result = compare(case, out.to(plain.dtype), lse.float())
    assert result.mismatch is None
    assert 0 < result.worst < 1


def test_one_element_off_by_four_ulps_of_its_row_fails_at_its_place(case):
    out = case["expected"][2].clone()
    row_ulp = ulp(case["expected"][0][0, 1, 5].abs().max(), case["dtype"])
    out[0, 1, 5, 17] += 5 * row_ulp
    result = compare(case, out)
    assert result.worst > 1
    assert result.mismatch.position == (0, 1, 5, 17)
    assert str(result.mismatch).startswith("out at batch 0, qo 1, head 5, dim 17: got ")


def test_a_key_left_out_of_300_fails(case):
    shorter = torch.tensor([299, 0], dtype=torch.int32)
    out = plain_emulation(case["q"], case["k"], case["v"], kv_lens=shorter)
    assert compare(case, out).mismatch is not None


def test_a_nan_fails(case):
    out = case["expected"][2].clone()
    out[0, 0, 0, 0] = math.nan
    result = compare(case, out)
    assert result.worst == math.inf
    assert result.mismatch.position == (0, 0, 0, 0)


def test_a_row_without_keys_must_be_exactly_zero(case):
    out = case["expected"][2].clone()
    out[1, 0, 3, 9] = 1e-7
    result = compare(case, out)
    assert result.worst == math.inf
    assert result.mismatch.position == (1, 0, 3, 9)


def test_a_small_row_does_not_hide_behind_a_large_one(case):
    out, lse, plain = (tensor.clone() for tensor in case["expected"])
    for tensor in (out, plain):
        tensor[0, 0, 0] *= 1000  # leaves a row whose rounding error is larger than the next one's values
    case["expected"] = (out, lse, plain)
    wrong = plain.clone()
    wrong[0, 0, 1] = 0
    assert compare(case, wrong).mismatch.position[:3] == (0, 0, 1)


@pytest.mark.parametrize("wrong", [2e-3, math.nan, -math.inf])
def test_a_wrong_lse_fails_at_its_place(case, wrong):
    lse = case["expected"][1].float()
    lse[0, 1, 2] += wrong
    result = compare(case, lse=lse)
    assert result.mismatch.what == "lse"
    assert result.mismatch.position == (0, 1, 2)


def test_a_finite_lse_where_no_key_is_visible_fails(case):
    lse = case["expected"][1].float()
    lse[1, 0, 0] = -1e30
    assert compare(case, lse=lse).mismatch.position == (1, 0, 0)


def test_an_output_of_another_shape_is_an_error(case):
    with pytest.raises(ValueError, match="shapes differ"):
        compare(case, case["expected"][2][:1])


def test_ulp_is_the_spacing_of_the_dtype():
    values = torch.tensor([1.0, 1.99, 2.0, 0.011, 0.0], dtype=torch.float64)
    for name, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
        for value, spacing in zip(values.tolist(), ulp(values, name).tolist(), strict=True):
            rounded = torch.tensor(value, dtype=dtype)
            above = torch.nextafter(rounded, torch.tensor(math.inf, dtype=dtype)) if value else rounded
            below = torch.nextafter(rounded, torch.tensor(-math.inf, dtype=dtype)) if value else rounded
            assert spacing in (float(above - rounded), float(rounded - below))
