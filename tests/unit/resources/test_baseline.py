"""The file of pinned registers: what is written is read back, and a damaged one is an error that names it."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkctl.errors import UsageError
from sparkctl.resources.baseline import Baseline, decode_baseline, encode_baseline
from sparkctl.resources.change import Numbers

NUMBERS = Numbers(128, 0, 0, 0, 640, 65536, 1, 2, 8)
BASELINE = Baseline("sm_90", {"nvcc 13.0.88": {"b.d64": NUMBERS, "a.d64": NUMBERS}, "nvcc 12.9.1": {}})

sizes = st.integers(0, 1 << 20)
maybe = st.none() | sizes
numbers = st.builds(Numbers, sizes, maybe, maybe, sizes, maybe, sizes, maybe, maybe, maybe)
names = st.text(min_size=1, max_size=20)


@given(st.dictionaries(names, st.dictionaries(names, numbers, max_size=4), max_size=3))
def test_what_is_written_is_read_back(compilers: dict[str, dict[str, Numbers]]) -> None:
    baseline = Baseline("sm_90", compilers)
    assert decode_baseline(encode_baseline(baseline), "x.json") == baseline


def test_a_line_a_variant_in_a_fixed_order() -> None:
    lines = encode_baseline(BASELINE).splitlines()
    assert [line.split('"')[1] for line in lines if line.startswith("   ")] == ["a.d64", "b.d64"]
    assert encode_baseline(BASELINE) == encode_baseline(Baseline("sm_90", dict(reversed(BASELINE.compilers.items()))))
    json.loads(encode_baseline(BASELINE))


def test_other_compilers_stay_where_one_is_pinned_anew() -> None:
    again = BASELINE.with_pins("nvcc 13.0.88", {"c": NUMBERS})
    assert again.compilers == {"nvcc 13.0.88": {"c": NUMBERS}, "nvcc 12.9.1": {}}


GOOD = encode_baseline(BASELINE)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        GOOD[:-40],
        GOOD.replace('"registers": 128', '"registers": -1'),
        GOOD.replace('"registers": 128', '"registers": null'),
        GOOD.replace('"registers": 128', '"registers": true'),
        GOOD.replace('"registers": 128', '"registers": "128"'),
        GOOD.replace('"spills": [0, 0]', '"spills": [0]'),
        GOOD.replace('"spills": [0, 0]', '"spills": 0'),
        GOOD.replace('"schema_version": 1', '"schema_version": 2'),
    ],
)
def test_a_damaged_file_is_an_error_that_names_it(text: str) -> None:
    with pytest.raises(UsageError, match=r"x\.json(:\d+)?: ") as raised:
        decode_baseline(text, "x.json")
    assert "--update" in (raised.value.hint or "")
    assert not re.search(r"Error\b", raised.value.message)  # Python's names are no words for a reader
