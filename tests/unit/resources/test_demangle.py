"""Names for people."""

import pytest

from sparkctl.resources import demangle, shorten


@pytest.mark.parametrize(
    ("mangled", "demangled"),
    [
        ("_Z5chainPKfi", "chain(float const*, int)"),
        ("_Z5chainPKfi$1", "chain(float const*, int)$1"),
        ("plain_c_name", "plain_c_name"),
        ("_Znot a name", "_Znot a name"),
        (
            "_ZN4demo13caller_kernelILi64EfEEvPT0_PKS1_i",
            "void demo::caller_kernel<64, float>(float*, float const*, int)",
        ),
    ],
)
def test_names_are_demangled_and_copies_keep_their_suffix(mangled: str, demangled: str) -> None:
    assert demangle(mangled) == demangled


@pytest.mark.parametrize(
    ("demangled", "short"),
    [
        ("chain(float const*, int)$1", "chain$1"),
        ("void demo::caller_kernel<64, float>(float*, float const*, int)", "caller_kernel<64, float>"),
        ("void spark::f_kernel<__nv_bfloat16, (int)128, 2ul>(spark::Params)", "f_kernel<bf16, 128, 2>"),
        ("void (anonymous namespace)::g<spark::Tile<64, 32>, true>(int)", "g<Tile<64, 32>, true>"),
        ("plain_c_name", "plain_c_name"),
        ("spark::plain_kernel(spark::Params)", "plain_kernel"),
    ],
)
def test_a_short_name_drops_what_people_do_not_read(demangled: str, short: str) -> None:
    assert shorten(demangled) == short


def test_template_arguments_that_match_the_axes_carry_their_names() -> None:
    name = "void spark::f_kernel<__nv_bfloat16, 128, 2, 64, false>(spark::DecodeParams)"
    axes = {"dtype": "bf16", "head_dim": 128, "stages": 2, "block_kv": 64}
    assert shorten(name, axes) == "f_kernel<bf16, head_dim=128, stages=2, block_kv=64, false>"
    assert shorten(name, {"head_dim": 256, "stages": 2}) == "f_kernel<bf16, 128, stages=2, 64, false>"
