"""Where a flag's value comes from, and what a variant is compiled with."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import pytest

from sparkctl.arch import parse_arch
from sparkctl.errors import UsageError
from sparkctl.registry import Registry, ResolvedFlags, parse_sets, resolve_flags, select_variants
from sparkctl.registry.resolve import arch_key_applies
from sparkctl.registry.values import environment_values


def resolved(
    registry: Registry, variant: str = "k_one.bf16.d128", arch: str | None = "sm_90", **more: object
) -> ResolvedFlags:
    options = {"profile": "release", "sets": {}, "environ": {}} | more
    chosen = select_variants(registry, [variant])[0]
    return resolve_flags(registry, chosen, arch=parse_arch(arch) if arch else None, **options)  # type: ignore[arg-type]


def test_the_chain_of_a_flag_names_every_source_weakest_first(registry: Registry) -> None:
    result = resolved(
        registry, environ={"SPARKCTL_FLAG_BLOCKS": "5", "HOME": "/"}, sets={"blocks": "6"}, api={"blocks": "7"}
    )
    chain = [(step.source, step.value, str(step.location), step.won) for step in result.chain if step.flag == "blocks"]
    assert chain == [
        ("default", "1", "flags.yaml:24", False),
        ("kernel", "2", "flags.yaml:42", False),
        ("arch sm_90", "4", "flags.yaml:44", False),
        ("environment", "5", "None", False),
        ("--set", "6", "None", False),
        ("api", "7", "None", True),
    ]
    assert result.values["blocks"] == "7"


def test_without_flags_a_set_and_the_environment_say_so(
    registry_of: Callable[[str], Registry],
) -> None:
    empty = registry_of("version: 1\nprofiles: {release: {}}")
    with pytest.raises(UsageError, match="unknown flag 'nothing'") as caught:
        parse_sets(empty, ["nothing=1"])
    assert caught.value.hint == "flags.yaml has no flags"
    with pytest.raises(UsageError, match="names no flag") as caught:
        environment_values(empty, {"SPARKCTL_FLAG_NOTHING": "1"})
    assert caught.value.hint == "flags.yaml has no flags"


SOURCES = ["profile", "kernel", "arch", "environment", "--set", "api"]
PAIRS = [(weak, strong) for weak, strong in combinations(["default", *SOURCES], 2)]


@pytest.mark.parametrize(("weak", "strong"), PAIRS, ids=[f"{weak} < {strong}" for weak, strong in PAIRS])
def test_the_stronger_source_wins(
    registry_of: Callable[[str], Registry], sample_text: str, weak: str, strong: str
) -> None:
    value = {source: str(rank + 10) for rank, source in enumerate(["default", *SOURCES])}
    on = {source: source in (weak, strong) for source in value}
    text = sample_text.replace("default: 1\n    accepts", f"default: {value['default']}\n    accepts")
    text = text.replace("set: {fast: 0}", f"set: {{blocks: {value['profile']}}}" if on["profile"] else "")
    text = text.replace("set: {blocks: 2}", f"set: {{blocks: {value['kernel']}}}" if on["kernel"] else "set: {}")
    text = text.replace("sm_90: {blocks: 4}", f"sm_90: {{blocks: {value['arch']}}}" if on["arch"] else "sm_90: {}")
    result = resolved(
        registry_of(text),
        profile="debug",
        environ={"SPARKCTL_FLAG_BLOCKS": value["environment"]} if on["environment"] else {},
        sets={"blocks": value["--set"]} if on["--set"] else {},
        api={"blocks": value["api"]} if on["api"] else {},
    )
    assert result.values["blocks"] == value[strong]


def test_options_come_in_the_order_profile_kernel_arch_flag(registry: Registry) -> None:
    result = resolved(registry)
    assert result.nvcc == ("-O3", "--extra-device-vectorization", "-Wno-a", "-Wno-b", "--use_fast_math")
    assert (result.ptxas, result.host) == (("-v",), ("-O3",))
    assert [(o.token, o.source, str(o.location)) for o in result.options if o.tool == "nvcc"] == [
        ("-O3", "profile release", "flags.yaml:5"),
        ("--extra-device-vectorization", "profile release", "flags.yaml:5"),
        ("-Wno-a", "kernel", "flags.yaml:45"),
        ("-Wno-b", "arch sm_90", "flags.yaml:45"),
        ("--use_fast_math", "flag fast=1", "flags.yaml:19"),
    ]


def test_a_profile_turns_a_flag_off(registry: Registry) -> None:
    assert "--use_fast_math" not in resolved(registry, profile="debug").nvcc


def test_defines_carry_axes_sizes_ranges_flags_and_the_name(registry: Registry) -> None:
    assert resolved(registry, profile="debug").defines == {
        "SPARK_DTYPE": "bf16",
        "SPARK_HEAD_DIM": "128",
        "SPARK_STAGES": "2",
        "SPARK_BLOCK": "256",
        "SPARK_DYNAMIC_SMEM": "0",
        "SPARK_VARIANT": "k_one.bf16.d128",
        "SPARK_ACCEPTS_GROUP_MIN": "1",
        "SPARK_ACCEPTS_GROUP_MAX": "64",
        "SPARK_ACCEPTS_KV_LEN_MIN": "0",
        "SPARK_ACCEPTS_KV_LEN_MAX": "2147483647",
        "SPARK_BLOCKS": "4",
        "SPARK_CHECKS": "1",
    }


def test_a_flag_reaches_only_the_kernels_that_it_affects(registry: Registry) -> None:
    result = resolved(registry, "k_two", sets={"blocks": "9"})
    assert "blocks" not in result.values
    assert "SPARK_BLOCKS" not in result.defines


@pytest.mark.parametrize(
    ("key", "arch", "applies"),
    [
        ("sm_90", "sm_90", True),
        ("sm_90", "sm_90a", True),
        ("sm_90a", "sm_90", False),
        ("sm_90a", "sm_90a", True),
        ("sm_80", "sm_86", False),
        ("9.0", "sm_90a", True),
    ],
)
def test_an_arch_key_speaks_of_its_chip(key: str, arch: str, applies: bool) -> None:
    assert arch_key_applies(key, parse_arch(arch)) is applies


def test_the_more_exact_arch_key_wins(registry_of: Callable[[str], Registry], sample_text: str) -> None:
    text = sample_text.replace("sm_90: {blocks: 4}", "sm_90a: {blocks: 8}\n      sm_90: {blocks: 4}")
    assert resolved(registry_of(text), arch="sm_90a").values["blocks"] == "8"
    assert resolved(registry_of(text), arch="sm_90").values["blocks"] == "4"
    assert resolved(registry_of(text), arch=None).values["blocks"] == "2"


@pytest.mark.parametrize("text", ["1", "true", "True", "on", "ON"])
def test_a_truth_value_is_accepted_in_all_its_spellings(registry: Registry, text: str) -> None:
    assert parse_sets(registry, [f"fast={text}"]) == {"fast": "1"}


def test_a_text_flag_is_split_as_a_shell_would(registry_of: Callable[[str], Registry], sample_text: str) -> None:
    extra = "{kind: nvcc, type: str, default: '', affects: ['*'], options: {'*': ['{value}']}, doc: Further options.}"
    registry = registry_of(sample_text.replace("kernels:\n", f"  extra: {extra}\nkernels:\n"))
    assert resolved(registry, sets={"extra": "-g '-D X=a b'"}).nvcc[-2:] == ("-g", "-D X=a b")
    with pytest.raises(UsageError) as caught:
        parse_sets(registry, ["extra='open"])
    assert caught.value.message == "--set: flag extra: ''open' is not accepted"


REFUSED_SETS = [
    ("fast=2", "--set: flag fast: '2' is not accepted", "accepted: 1, 0"),
    ("blocks=33", "--set: flag blocks: '33' is not accepted", "accepted: 1..32"),
    ("blocks=", "--set: flag blocks: '' is not accepted", "accepted: 1..32"),
    ("blocks=٣", "--set: flag blocks: '٣' is not accepted", "accepted: 1..32"),
    ("block=3", "--set: unknown flag 'block'", "did you mean 'blocks'?"),
    ("fast", "--set fast: no value", "write it as --set NAME=VALUE"),
]


@pytest.mark.parametrize(("item", "message", "hint"), REFUSED_SETS)
def test_a_bad_set_names_the_flag_the_value_and_what_is_accepted(
    registry: Registry, item: str, message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        parse_sets(registry, [item])
    assert (caught.value.message, caught.value.hint) == (message, hint)


@pytest.mark.parametrize(
    ("variable", "value", "message", "hint"),
    [
        (
            "SPARKCTL_FLAG_FSAT",
            "1",
            "environment: SPARKCTL_FLAG_FSAT names no flag",
            "did you mean 'SPARKCTL_FLAG_FAST'?",
        ),
        (
            "SPARKCTL_FLAG_FAST",
            "maybe",
            "environment: SPARKCTL_FLAG_FAST: flag fast: 'maybe' is not accepted",
            "accepted: 1, 0",
        ),
    ],
)
def test_a_bad_environment_variable_is_refused(
    registry: Registry, variable: str, value: str, message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        resolved(registry, environ={variable: value})
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_an_unknown_profile_is_refused(registry: Registry) -> None:
    with pytest.raises(UsageError) as caught:
        resolved(registry, profile="relase")
    assert (caught.value.message, caught.value.hint) == ("unknown profile 'relase'", "did you mean 'release'?")


def test_other_variables_of_sparkctl_are_left_alone(registry: Registry) -> None:
    assert resolved(registry, environ={"SPARKCTL_NVCC": "/usr/bin/nvcc"}).values["fast"] == "1"
