"""Every mistake in flags.yaml gives its line, its key, what is wrong and what to do."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkctl.errors import UsageError
from sparkctl.registry import Registry, load_registry

DATA = Path(__file__).parents[2] / "data" / "registry" / "broken.yaml"
BROKEN = yaml.safe_load(DATA.read_text(encoding="utf-8"))

WHOLE_TEXTS = [
    ("", "flags.yaml:1: the file is empty", "docs/registry.md has the grammar"),
    ("[]", "flags.yaml:1: key (top level): expected keys with values, found a list", None),
    ("version: 1", "flags.yaml:1: key (top level): needs 'profiles'", None),
    ("version: 1\nprofiles: {}", "flags.yaml:2: key profiles: is empty", None),
    (
        "version: 1\nprofiles: &a {release: *a}",
        "flags.yaml:2: key profiles.release: an alias that contains itself",
        None,
    ),
    ("a: " + "[" * 5000, "flags.yaml:1: not YAML: nested too deep", None),
]


@pytest.mark.parametrize("row", BROKEN, ids=[f"{row['old']} -> {row['new']}" for row in BROKEN])
def test_a_mistake_names_its_line_its_key_and_a_way_out(
    registry_of: Callable[[str], Registry], sample_text: str, row: dict[str, Any]
) -> None:
    assert row["old"] in sample_text
    with pytest.raises(UsageError) as caught:
        registry_of(sample_text.replace(row["old"], row["new"], 1))
    assert caught.value.message.splitlines() == row["says"]
    assert caught.value.hint == row.get("hint")


@pytest.mark.parametrize(("text", "message", "hint"), WHOLE_TEXTS)
def test_a_text_that_is_no_registry_at_all_is_refused(
    registry_of: Callable[[str], Registry], text: str, message: str, hint: str | None
) -> None:
    with pytest.raises(UsageError) as caught:
        registry_of(text)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_several_mistakes_are_listed_in_the_order_of_the_file(
    registry_of: Callable[[str], Registry], sample_text: str
) -> None:
    text = sample_text.replace("set: {blocks: 2}", "set: {block: 2}").replace("extends: release", "extends: relase")
    with pytest.raises(UsageError) as caught:
        registry_of(text)
    assert caught.value.message.splitlines() == [
        "flags.yaml:9: key profiles.debug.extends: unknown profile 'relase'",
        "flags.yaml:42: key kernels.k_one.set.block: unknown flag 'block'",
    ]
    assert caught.value.hint == "line 9: did you mean 'release'?\nline 42: did you mean 'blocks'?"


# texts of the sample, what they become, and all that is said of the file
TOGETHER: list[tuple[list[tuple[str, str]], list[str]]] = [
    (
        [("kind: nvcc", "kind: nvccc"), ("block: 2 *", "blokc: 2 *"), ("min_arch: sm_80", "min_arch: sm_8x")],
        [
            "flags.yaml:15: key flags.fast.kind: 'nvccc' is not one of runtime, define, nvcc, ptxas, host",
            "flags.yaml:33: key kernels.k_one.min_arch: arch 'sm_8x' is not understood",
            "flags.yaml:39: key kernels.k_one.blokc: unknown key 'blokc'",
        ],
    ),
    (
        [("nvcc: [-O3, --extra", "remove: {nvcc: -O3}\n    nvcc: [-O3, --extra"), ("block: 32", "block: 2 * head_dim")],
        [
            "flags.yaml:5: key profiles.release.remove.nvcc: expected a list, found the text '-O3'",
            "flags.yaml:52: key kernels.k_two.block: formula '2 * head_dim': unknown name 'head_dim'",
        ],
    ),
    (
        [
            ("[-O3, --extra-device-vectorization]", "-O3"),
            ("extends: release", "extends: release\n    remove: {nvcc: [-O3]}"),
        ],
        ["flags.yaml:5: key profiles.release.nvcc: expected a list, found the text '-O3'"],
    ),
    (
        [("source: csrc/one.cu", "source: [one]"), ("source: csrc/two.cu", "source: [two]")],
        [
            "flags.yaml:32: key kernels.k_one.source: expected text, found a list",
            "flags.yaml:49: key kernels.k_two.source: expected text, found a list",
        ],
    ),
    (
        [("type: bool", "type: boolean"), ("set: {fast: 0}", "set: {fats: 0}")],
        [
            "flags.yaml:12: key profiles.debug.set.fats: unknown flag 'fats'",
            "flags.yaml:16: key flags.fast.type: 'boolean' is not one of bool, int, str",
        ],
    ),
    (
        [("version: 1", "version: 2"), ("extends: release", "extends: relase")],
        [
            "flags.yaml:1: key version: '2' is not one of 1",
            "flags.yaml:9: key profiles.debug.extends: unknown profile 'relase'",
        ],
    ),
    (
        [("\nflags:", "\nflag:"), ("extends: release", "extends: relase")],
        ["flags.yaml:13: key flag: unknown key 'flag'"],
    ),
]


@pytest.mark.parametrize(("edits", "says"), TOGETHER, ids=[says[-1] for _, says in TOGETHER])
def test_a_mistake_of_grammar_hides_no_other_mistake_and_makes_none_up(
    registry_of: Callable[[str], Registry], sample_text: str, edits: list[tuple[str, str]], says: list[str]
) -> None:
    for old, new in edits:
        assert old in sample_text
        sample_text = sample_text.replace(old, new, 1)
    with pytest.raises(UsageError) as caught:
        registry_of(sample_text)
    assert caught.value.message.splitlines() == says


def test_a_flag_with_a_mistake_is_still_offered_as_a_guess(
    registry_of: Callable[[str], Registry], sample_text: str
) -> None:
    text = sample_text.replace("type: bool", "type: boolean").replace("set: {fast: 0}", "set: {fats: 0}")
    with pytest.raises(UsageError) as caught:
        registry_of(text)
    assert caught.value.hint == "line 12: did you mean 'fast'?\nline 16: did you mean 'bool'?"


def test_two_points_with_one_name_are_refused(registry_of: Callable[[str], Registry], sample_text: str) -> None:
    axes = "axes: {a: {values: [1, 2], default: 1}, b: {values: [1, 2], default: 1}}\n    block: 32"
    with pytest.raises(UsageError) as caught:
        registry_of(sample_text.replace("block: 32", axes))
    assert caught.value.message == "flags.yaml:51: key kernels.k_two.axes: two points are named k_two.2"


BOMB = "a: &a {k: &k [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]}\n"
BOMBS = {
    "lists": [f"l{i}: &l{i} [{', '.join(['*' + (f'l{i - 1}' if i else 'k')] * 10)}]" for i in range(9)],
    "merges": [
        f"m{i}: &m{i} {{<<: [{', '.join(['*' + (f'm{i - 1}' if i else 'a')] * 10)}], x{i}: 1}}" for i in range(9)
    ],
}


@pytest.mark.parametrize("kind", BOMBS)
def test_aliases_that_stand_for_millions_of_entries_end_soon(registry_of: Callable[[str], Registry], kind: str) -> None:
    began = time.perf_counter()
    with pytest.raises(UsageError) as caught:
        registry_of(BOMB + "\n".join(BOMBS[kind]))
    assert time.perf_counter() - began < 5
    if kind == "lists":
        assert re.match(
            r"flags\.yaml:1: key l\d.*: too many aliases, or more than 20000 entries$", caught.value.message
        )


def test_a_map_that_merges_itself_is_refused(registry_of: Callable[[str], Registry]) -> None:
    with pytest.raises(UsageError, match="an alias that contains itself"):
        registry_of("a: &a {<<: *a}")


def test_a_name_that_is_too_long_is_refused(registry_of: Callable[[str], Registry], sample_text: str) -> None:
    with pytest.raises(UsageError, match=r"key kernels\.k_x+: the name is longer than 100 characters"):
        registry_of(sample_text.replace("  k_two:", f"  k_{'x' * 99}:"))


def test_axes_that_span_too_many_points_are_refused_before_they_are_spanned(
    registry_of: Callable[[str], Registry], sample_text: str
) -> None:
    values = ", ".join(str(number) for number in range(101))
    axes = f"axes: {{a: {{values: [{values}]}}, b: {{values: [{values}], short: b}}}}\n    block: 32"
    with pytest.raises(UsageError, match="the axes span more than 10000 points"):
        registry_of(sample_text.replace("block: 32", axes))


def test_a_file_that_is_not_utf8_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "flags.yaml").write_bytes(b"version: 1\nnaming: '\xff'\n")
    with pytest.raises(UsageError, match=r"flags\.yaml:2: not UTF-8 text"):
        load_registry(tmp_path)


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        load_registry(tmp_path / "flags.yaml")


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_edit_of_a_good_file_loads_or_is_a_usage_error_with_a_line(
    registry_of: Callable[[str], Registry], sample_text: str, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(sample_text)))
    stop = start + data.draw(st.integers(0, 12))
    new = data.draw(
        st.sampled_from(["", "\n", " ", ":", "- ", "[", "{", "*", "&a ", "1", "null", "~", "''", "|", "<<: "])
    )
    try:
        registry_of(sample_text[:start] + new + sample_text[stop:])
    except UsageError as error:
        assert re.match(r"flags\.yaml:\d+: (key \S.*: |not YAML: |the file is empty)", error.message)
