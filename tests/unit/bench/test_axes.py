"""Sizes, heads and cases as people write them."""

import pytest

from sparkctl.bench.axes import DecodeCase, Heads, parse_heads, same_keys, span_cases
from sparkctl.bench.sizes import format_size, parse_list, parse_size
from sparkctl.errors import UsageError


@pytest.mark.parametrize(
    ("text", "number"), [("16k", 16384), ("16K", 16384), ("0", 0), ("100", 100), ("1.5k", 1536), ("1m", 1048576)]
)
def test_a_size_is_read_with_binary_factors(text: str, number: int) -> None:
    assert parse_size(text) == number


@pytest.mark.parametrize("text", ["", "k", "-1", "1.3", "16kb", "1e3", "0.3k"])
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="is not a size") as raised:
        parse_size(text)
    assert "16k" in str(raised.value.hint)


@pytest.mark.parametrize("text", ["2147483648", "2048m", "9007199254740993"])
def test_a_size_past_32_bits_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is larger than 2147483647"):
        parse_size(text)


def test_a_size_of_any_length_is_an_error_and_no_bug() -> None:
    with pytest.raises(UsageError, match="is not a size"):
        parse_size("9" * 5000)
    with pytest.raises(UsageError, match="not a pair of heads"):
        parse_heads("9" * 5000)
    with pytest.raises(UsageError, match="more than 2147483647 heads"):
        parse_heads("99999999999/1")


@pytest.mark.parametrize("number", [0, 1, 1000, 1024, 1536, 16384, 1048576, 3 * 1048576])
def test_a_printed_size_reads_back_as_itself(number: int) -> None:
    assert parse_size(format_size(number)) == number


def test_sizes_print_in_their_shortest_exact_form() -> None:
    assert [format_size(n) for n in (16384, 1000, 1048576, 0)] == ["16k", "1000", "1m", "0"]


def test_heads_are_query_over_kv_and_one_number_is_both() -> None:
    assert parse_heads("32/8") == Heads(32, 8)
    assert parse_heads("16") == Heads(16, 16)


@pytest.mark.parametrize(
    "text", ["32/5", "8/32", "0/1", "32/0", "-4/2", "a/b", "32/8/2", "", "32_32", "32/8_0", "32/", "+4/2", "٣/١"]
)
def test_heads_that_cannot_be_shared_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_heads(text)


def test_a_list_keeps_its_order() -> None:
    assert parse_list("16k, 4k,", parse_size, option="--seq") == (16384, 4096)


@pytest.mark.parametrize(
    ("text", "message"),
    [("4k,16k,4k", "--seq: 4k is written twice"), ("16k,4k, 16384", "--seq: 16384 is written twice, as 16k too")],
)
def test_a_value_that_is_written_twice_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_list(text, parse_size, option="--seq")
    assert caught.value.message == message


def test_an_empty_list_names_its_option() -> None:
    with pytest.raises(UsageError, match="--seq is empty"):
        parse_list(" , ", parse_size, option="--seq")


def test_cases_span_every_combination_with_batch_fastest() -> None:
    cases = span_cases(
        keys=same_keys((4096, 16384), (1, 8)), heads=(Heads(32, 8), Heads(32, 4)), head_dims=(128,), dtypes=("bf16",)
    )
    assert len(cases) == 8
    assert [(c.heads.num_kv_heads, c.kv_len, c.batch) for c in cases[:3]] == [(8, 4096, 1), (8, 4096, 8), (8, 16384, 1)]


def test_a_causal_case_needs_a_key_for_every_query() -> None:
    with pytest.raises(UsageError, match="qo_len 4 and kv_len 2"):
        span_cases(
            keys=same_keys((2,), (1,)),
            heads=(Heads(1, 1),),
            head_dims=(64,),
            dtypes=("bf16",),
            qo_lens=(4,),
            causal=True,
        )


def test_a_label_says_only_what_is_out_of_the_ordinary() -> None:
    assert DecodeCase(1, 16384, Heads(32, 8), 128).label == "1 × 16k, 32/8, d128, bf16"
    odd = DecodeCase(2, 100, Heads(4, 4), 64, "fp16", qo_len=3, causal=True, num_splits=7, l2="hot")
    assert odd.label == "2 × 100, 4/4, d64, fp16, qo_len 3, causal, 7 splits, hot L2"
