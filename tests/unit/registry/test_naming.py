"""The naming pattern: as `re` matches, but never for long."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkctl.registry.naming import MAX_NAME, Naming

PATTERN = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\w", "", "^", "$"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("({0[0]}|{0[1]})".format),
        st.tuples(inner, st.sampled_from(["?", "*", "+", "{2}", "{1,}", "{0,3}", "{,2}"])).map(
            "(?:{0[0]}){0[1]}".format
        ),
    ),
    max_leaves=5,
)


@given(PATTERN, st.text("abc", max_size=6))
def test_a_pattern_matches_what_re_matches(pattern: str, name: str) -> None:
    try:
        naming = Naming(pattern)
    except ValueError as error:
        assert "inside each other" in str(error)
        return
    assert naming.matches(name) == bool(re.fullmatch(pattern, name, re.DOTALL))


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("k_[a-z]+(_[a-z0-9]+)*", "k_one_two_3", "k_one__"),
        (r"[]\]a]{2,3}", "]a]", "a"),
        ("a|b_(c|d)?|", "b_d", "b"),
        (r"\w\.x", "a.x", "abx"),
    ],
)
def test_what_people_write_is_understood(pattern: str, good: str, bad: str) -> None:
    assert Naming(pattern).matches(good)
    assert not Naming(pattern).matches(bad)


@pytest.mark.parametrize(
    "pattern", ["(a+)+b", "(a|a)*b", "a?" * 60 + "a" * 60 + "b", ".*" * 30 + "b", "(((a?){99}){99}){99}b", "((a*)*)*b"]
)
def test_no_pattern_takes_long(pattern: str) -> None:
    began = time.perf_counter()
    assert not Naming(pattern).matches("a" * MAX_NAME)
    assert time.perf_counter() - began < 5


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        ("(a", "unterminated subpattern"),
        (r"(a)\1", "cannot be used"),
        ("(?=a)a", "cannot be used"),
        (r"\bk", "cannot be used"),
        ("(?i)k", "cannot be used"),
        (r"\x41", "cannot be used"),
        ("k*?", "a repetition of a repetition"),
        ("a" * 501, "longer than 500 characters"),
        ("((((a*)*)*)*)*", "more than 3 repetitions inside each other"),
    ],
)
def test_a_pattern_beyond_that_is_refused(pattern: str, what: str) -> None:
    with pytest.raises(ValueError, match=re.escape(what)):
        Naming(pattern)
