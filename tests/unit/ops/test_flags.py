"""Flags that are read at each call: who wins, what they choose, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from sparkctl import ops
from sparkctl.ops import plan_cache, plan_call
from sparkctl.ops.flags import FlagSetting, allowed_by_flags, describe_flags, runtime_flags
from sparkctl.ops.plan import DecodeShape
from sparkctl.ops.plan_cache import MOST, remembered
from sparkctl.runtime import BuiltVariant, Library, Manifest, RuntimeFlag

AXES: dict[str, int | str] = {"dtype": "bf16", "head_dim": 64}

FAPIPE = RuntimeFlag("FAPIPE", "bool", None, None, {"fa": "1", "fa_too": "0"})
DEPTH = RuntimeFlag("depth", "int", None, (1, 8), {"fa": "2"})
MODE = RuntimeFlag("mode", "str", ("fast", "exact"), None, {"fa": "fast"})


def built(kernel: str, stages: int | None) -> BuiltVariant:
    values: dict[str, int | str] = {"dtype": "bf16"} | ({} if stages is None else {"stages": stages})
    return BuiltVariant(f"{kernel}.s{stages}", kernel, "decode", values, {}, 128, 0, 0, 64, 4)


VARIANTS = (*(built(kernel, stages) for kernel in ("fa", "other") for stages in (1, 2)), built("fa_too", None))
MANIFEST = Manifest("l.so", "cuda", "sm_90", "release", {}, "d", "nvcc", VARIANTS, (FAPIPE, DEPTH, MODE))


def value_of(name: str, environ: dict[str, str], api: dict[str, Any] | None = None) -> FlagSetting:
    (found,) = [one for one in runtime_flags(MANIFEST, environ, api)["fa"] if one.name == name]
    return found


def test_the_call_beats_the_environment_and_that_the_registry() -> None:
    environ = {"SPARKCTL_FLAG_FAPIPE": "off"}
    assert value_of("FAPIPE", {}) == FlagSetting("FAPIPE", "1", "the registry")
    assert value_of("FAPIPE", environ) == FlagSetting("FAPIPE", "0", "the environment")
    assert value_of("FAPIPE", environ, {"FAPIPE": True}) == FlagSetting("FAPIPE", "1", "the call")


def test_nothing_is_remembered_from_one_call_to_the_next() -> None:
    environ = {"SPARKCTL_FLAG_FAPIPE": "0"}
    assert value_of("FAPIPE", environ).value == "0"
    environ["SPARKCTL_FLAG_FAPIPE"] = "1"
    assert value_of("FAPIPE", environ).value == "1"
    del environ["SPARKCTL_FLAG_FAPIPE"]
    assert value_of("FAPIPE", environ).source == "the registry"


def test_each_kernel_has_the_value_that_the_registry_gives_it() -> None:
    settings = runtime_flags(MANIFEST, {})
    assert [str(one) for one in settings["fa_too"]] == ["FAPIPE=0 (the registry)"]
    assert "other" not in settings


@pytest.mark.parametrize(("value", "stages"), [(1, 2), (0, 1)])
def test_fapipe_chooses_the_stages_of_the_kernels_that_it_reaches(value: int, stages: int) -> None:
    left = allowed_by_flags(VARIANTS, runtime_flags(MANIFEST, {}, {"FAPIPE": value}))
    assert [v.name for v in left] == [f"fa.s{stages}", "other.s1", "other.s2", "fa_too.sNone"]


def test_flags_of_several_spellings_and_types_are_read() -> None:
    assert value_of("depth", {"SPARKCTL_FLAG_DEPTH": "07"}).value == "7"
    assert value_of("depth", {}, {"depth": 3}).value == "3"
    assert value_of("mode", {"SPARKCTL_FLAG_mode": "exact"}).value == "exact"


@pytest.mark.parametrize(
    ("environ", "api", "message"),
    [
        ({}, {"FAPIP": 1}, "flags names 'FAPIP', accepted are FAPIPE, depth, mode"),
        ({}, {"FAPIPE": 2}, r"flags\['FAPIPE'\] is 2, accepted are 0, 1, false"),
        ({}, {"FAPIPE": None}, r"flags\['FAPIPE'\] is None"),
        ({"SPARKCTL_FLAG_FAPIPE": "maybe"}, {}, "SPARKCTL_FLAG_FAPIPE is 'maybe', accepted are 0, 1"),
        ({"SPARKCTL_FLAG_DEPTH": "9"}, {}, "SPARKCTL_FLAG_DEPTH is '9', accepted are 1 to 8"),
        ({}, {"mode": "slow"}, "is 'slow', accepted are fast, exact"),
    ],
)
def test_what_no_flag_takes_is_an_error_that_names_it(
    environ: dict[str, str], api: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        runtime_flags(MANIFEST, environ, api)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("SPARKCTL_FLAG_FAPIP", "did you mean 'SPARKCTL_FLAG_FAPIPE'?"),
        ("SPARKCTL_FLAG_fapipe_", "did you mean 'SPARKCTL_FLAG_FAPIPE'?"),
        ("SPARKCTL_FLAG_", ""),
    ],
)
def test_a_name_in_the_environment_that_is_no_flag_is_an_error(name: str, hint: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        runtime_flags(MANIFEST, {"HOME": "/", name: "0"})
    assert str(caught.value).startswith(f"{name} in the environment names no flag: {hint}")


def test_flags_that_a_compiler_reads_are_names_too() -> None:
    from sparkctl.registry import find_project, load_registry

    compiled = [
        name for name, flag in load_registry(find_project() / "flags.yaml").flags.items() if flag.kind != "runtime"
    ]
    assert compiled
    environ = {f"SPARKCTL_FLAG_{name.upper()}": "whatever" for name in compiled}
    assert runtime_flags(MANIFEST, environ) == runtime_flags(MANIFEST, {})


def test_a_plan_is_made_once_for_each_state_of_the_environment() -> None:
    library, made = library_of(1, 2), []

    def plan() -> int:
        made.append(len(made))
        return made[-1]

    on = {"SPARKCTL_FLAG_FAPIPE": "1"}
    off = {"SPARKCTL_FLAG_FAPIPE": "0"}
    states = [on, on, off, on, {}, {"SPARKCTL_FLAG_FAPIP": "1", **on}, {"SPARKCTL_FLAG_fapipe": "1"}]
    assert [remembered(library, "a", environ, plan) for environ in states] == [0, 0, 1, 0, 2, 3, 0]
    assert remembered(library, "b", on, plan) == 4
    assert remembered(library_of(1, 2), "a", on, plan) == 5
    for size in range(2 * MOST):
        remembered(library, size, on, lambda: None)
    assert len(plan_cache._made) <= MOST


def test_a_plan_says_which_flags_it_heeded_and_who_set_them() -> None:
    settings = runtime_flags(MANIFEST, {"SPARKCTL_FLAG_FAPIPE": "0"}, {"mode": "exact"})
    assert describe_flags("fa", settings) == (
        "; FAPIPE=0 (the environment); depth=2 (the registry); mode=exact (the call)"
    )
    assert describe_flags("other", settings) == ""


MMA = "attn_decode_split_kv_mma"
SHAPE = DecodeShape(1, 1, 8, 2, 64, 4096, "bf16")


def library_of(*stages: int) -> Library:
    built = [
        *(
            BuiltVariant(f"{MMA}.s{s}", MMA, "decode", {**AXES, "stages": s}, {}, 128, s << 13, 0, 64, 4)
            for s in stages
        ),
        BuiltVariant("attn_combine", "attn_combine", "combine", AXES, {}, 128, 0, 0, 64, 4),
    ]
    flag = RuntimeFlag("FAPIPE", "bool", None, None, {MMA: "1"})
    manifest = Manifest("l.so", "cuda", "sm_90", "release", {}, "d", "nvcc", tuple(built), (flag,))
    return Library(Path("build"), manifest, None, {v.name: i for i, v in enumerate(built)})


def chosen(library: Library, **options: Any) -> tuple[str, str]:
    call = plan_call(library, SHAPE, **{"environ": {}, **options})
    assert call is not None
    return call.plan.variant.rpartition(".")[2], call.plan.reason.partition("; ")[2]


def test_a_call_heeds_the_flag_and_its_plan_says_so() -> None:
    library = library_of(1, 2, 4)
    assert chosen(library) == ("s2", "FAPIPE=1 (the registry)")
    assert chosen(library, environ={"SPARKCTL_FLAG_FAPIPE": "0"}) == ("s1", "FAPIPE=0 (the environment)")
    assert chosen(library, flags={"FAPIPE": 0}) == ("s1", "FAPIPE=0 (the call)")


def test_the_process_environment_is_read_at_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    library = library_of(1, 2)
    for value, stages in (("0", "s1"), ("1", "s2"), ("0", "s1")):
        monkeypatch.setenv("SPARKCTL_FLAG_FAPIPE", value)
        assert chosen(library, environ=None)[0] == stages


def test_a_forced_variant_beats_the_flag() -> None:
    assert chosen(library_of(1, 2), variant=f"{MMA}.s1", flags={"FAPIPE": 1}) == ("s1", "")


def test_a_flag_whose_variant_is_not_built_is_an_error_and_not_another_variant() -> None:
    with pytest.raises(ValueError, match=rf"FAPIPE=0 \(the call\): no built variant of {MMA} has it; sparkctl build"):
        chosen(library_of(2, 4), flags={"FAPIPE": 0})


def test_plain_torch_takes_no_flags() -> None:
    q = torch.zeros(1, 1, 2, 64, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="backend is 'torch', which accepts no kernel, variant, library or flags"):
        ops.decode(q, q, q, backend="torch", flags={"FAPIPE": 0})
