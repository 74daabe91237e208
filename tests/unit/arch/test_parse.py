"""Archs as people write them."""

import pytest

from sparkctl.arch import KNOWN_ARCHS, Arch, parse_arch, parse_archs
from sparkctl.errors import MissingTool, UsageError


def no_devices() -> tuple[Arch, ...]:
    return ()


def must_not_be_called() -> tuple[Arch, ...]:
    raise AssertionError("native was not asked for")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90", Arch(9, 0)),
        ("9.0", Arch(9, 0)),
        ("sm_90a", Arch(9, 0, "a")),
        ("SM_90A", Arch(9, 0, "a")),
        ("9.0a", Arch(9, 0, "a")),
        ("compute_120f", Arch(12, 0, "f")),
        ("12.1", Arch(12, 1)),
        ("8.0+PTX", Arch(8, 0, "", True)),
        ("sm_100f+ptx", Arch(10, 0, "f", True)),
        (" sm_89 ", Arch(8, 9)),
        ("sm89", Arch(8, 9)),
    ],
)
def test_every_spelling_of_an_arch_is_read(text: str, expected: Arch) -> None:
    assert parse_arch(text) == expected


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("sm_9o", "arch 'sm_9o' is not understood", "did you mean 'sm_90'?"),
        ("", "arch '' is not understood", "write it as sm_90, sm_90a or 9.0"),
        ("8", "arch '8' is not understood", "write it as"),
        ("sm_90b", "arch 'sm_90b' is not understood", "did you mean 'sm_90'?"),
        ("nativ", "arch 'nativ' is not understood", "write it as sm_90, sm_90a or 9.0"),
        ("native", "arch 'native': one arch is expected here, by its name", "write it as sm_90"),
        ("All", "arch 'All': one arch is expected here, by its name", "write it as sm_90"),
        ("sm_80,sm_90", "arch 'sm_80,sm_90': one arch is expected here, by its name", "write it as sm_90"),
        ("sm_75", "arch 'sm_75' is older than sm_80, the oldest supported", "known archs: sm_80, sm_86"),
        ("sm_101", "arch 'sm_101' is not known", "CUDA 13 renamed sm_101: did you mean 'sm_110'?"),
        ("sm_130", "arch 'sm_130' is not known", "known archs: sm_80"),
        ("8.09.0", "'8.09.0' is not one arch", "write it as sm_90, sm_90a or 9.0"),  # a missing comma
        ("sm_80sm_90", "'sm_80sm_90' is not one arch", "write it as sm_90, sm_90a or 9.0"),
        ("8.0;9.0", "'8.0;9.0' is not one arch", "write it as sm_90, sm_90a or 9.0"),
        ("8090", "arch '8090' is not understood", "write it as"),
    ],
)
def test_what_is_not_known_is_refused_by_name(text: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_arch(text)
    assert error.value.message == message
    assert error.value.hint is not None
    assert hint in error.value.hint


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("nativ", "did you mean 'native'?"),
        ("sm_90,ampere", "write it as sm_90, sm_90a, 9.0, native or all"),
        ("8.09.0", "separate archs by commas: sm_89,sm_90a"),
    ],
)
def test_where_a_list_may_stand_the_hint_knows_lists(text: str, hint: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_archs(text, native=no_devices)
    assert error.value.hint == hint


def test_a_list_keeps_its_order_and_drops_duplicates() -> None:
    archs = parse_archs("sm_90a, 8.0,90a,sm_80", native=must_not_be_called)
    assert archs == (Arch(9, 0, "a"), Arch(8, 0))


def test_all_is_every_known_arch() -> None:
    assert parse_archs("all", native=must_not_be_called) == KNOWN_ARCHS


def test_native_is_what_the_machine_has() -> None:
    assert parse_archs("native,sm_80", native=lambda: (Arch(8, 9), Arch(8, 9))) == (Arch(8, 9), Arch(8, 0))


def test_native_without_a_device_is_a_missing_tool() -> None:
    with pytest.raises(MissingTool) as error:
        parse_archs("native", native=no_devices)
    assert error.value.hint == "name an arch, such as --arch sm_90"


def test_an_empty_item_is_refused() -> None:
    with pytest.raises(UsageError, match="empty arch in 'sm_80,,sm_90'"):
        parse_archs("sm_80,,sm_90", native=no_devices)
