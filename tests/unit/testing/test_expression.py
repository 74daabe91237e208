"""The -k expression."""

import pytest

from sparkctl.errors import UsageError
from sparkctl.testing.expression import parse_expression

IDS = ("b1-kv1-s1", "b1-kv1-s16", "zero-b3-kv1-s1-causal")


def chosen(text):
    matches = parse_expression(text, IDS)
    return [case for case in IDS if matches("kernel.bf16.d128", case)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kv1", list(IDS)),
        ("CAUSAL", [IDS[2]]),
        ("b1-kv1-s1", [IDS[0]]),  # a whole id is that case alone, though two others contain it
        ("not causal", list(IDS[:2])),
        ("causal or s16", [IDS[1], IDS[2]]),
        ("b1 and not s16", [IDS[0]]),
        ("not (causal or s16)", [IDS[0]]),
        ("d128 and causal", [IDS[2]]),  # variants have names too
        ("d64", []),
        ("s16 or causal and zero", [IDS[1], IDS[2]]),
    ],
)
def test_an_expression_selects(text, expected):
    assert chosen(text) == expected


@pytest.mark.parametrize("text", ["", "and b1", "b1 and", "b1 b3", "(b1", "b1)", "not", "b1 or or b3"])
def test_a_malformed_expression_is_a_usage_error(text):
    with pytest.raises(UsageError, match="-k"):
        chosen(text)
