"""Names, compiler options, what runs where, and the table of limits."""

import pytest

from sparkctl.arch import KNOWN_ARCHS, Arch, limits_for, parse_arch
from sparkctl.errors import UsageError


def test_names_and_options_of_a_target() -> None:
    arch = Arch(9, 0, "a")
    assert (arch.name, arch.capability, str(arch)) == ("sm_90a", "9.0", "sm_90a")
    assert arch.gencode == ("-gencode=arch=compute_90a,code=sm_90a",)


def test_ptx_adds_the_virtual_code_and_shows_only_in_the_text() -> None:
    arch = Arch(8, 0, ptx=True)
    assert (arch.name, str(arch)) == ("sm_80", "sm_80+PTX")
    assert arch.gencode == ("-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_80,code=compute_80")


def test_a_two_digit_major_keeps_its_minor() -> None:
    assert Arch(12, 1, "f").name == "sm_121f"
    assert Arch(12, 1, "f").capability == "12.1"


def test_every_arch_reads_back_from_its_own_text() -> None:
    for known in KNOWN_ARCHS:
        for suffix in ("", "a", "f"):
            arch = Arch(known.major, known.minor, suffix)
            assert parse_arch(arch.name) == arch
            assert parse_arch(f"{arch.capability}{suffix}") == arch
            assert parse_arch(str(Arch(arch.major, arch.minor, suffix, True))).ptx


@pytest.mark.parametrize(
    ("arch", "needs", "supported"),
    [
        ("sm_90", "sm_80", True),
        ("sm_90a", "sm_80", True),
        ("sm_80", "sm_90", False),
        ("sm_120", "sm_90", True),
        ("sm_90a", "sm_90a", True),
        ("sm_90", "sm_90a", False),
        ("sm_100a", "sm_90a", False),  # features of one chip do not go on
        ("sm_103f", "sm_100f", True),
        ("sm_103a", "sm_100f", True),
        ("sm_103", "sm_100f", False),
        ("sm_100f", "sm_103f", False),
        ("sm_120f", "sm_100f", False),
    ],
)
def test_min_arch_is_a_floor_a_chip_or_a_family(arch: str, needs: str, supported: bool) -> None:
    assert parse_arch(arch).supports(parse_arch(needs)) is supported


def test_archs_sort_by_capability_not_by_text() -> None:
    assert sorted([Arch(12, 0), Arch(8, 0), Arch(10, 3)]) == [Arch(8, 0), Arch(10, 3), Arch(12, 0)]


def test_the_table_of_limits() -> None:
    rows = [
        (a.capability, x.threads_per_sm, x.warps_per_sm, x.blocks_per_sm, x.smem_per_sm >> 10, x.barriers_per_sm)
        for a in KNOWN_ARCHS
        if (x := limits_for(a))
    ]
    assert rows == [
        ("8.0", 2048, 64, 32, 164, None),
        ("8.6", 1536, 48, 16, 100, None),
        ("8.7", 1536, 48, 16, 164, None),
        ("8.8", 1536, 48, 16, 100, None),
        ("8.9", 1536, 48, 24, 100, None),
        ("9.0", 2048, 64, 32, 228, 64),
        ("10.0", 2048, 64, 32, 228, 64),
        ("10.3", 2048, 64, 32, 228, 32),
        ("11.0", 1536, 48, 24, 228, 24),
        ("12.0", 1536, 48, 24, 100, 24),
        ("12.1", 1536, 48, 24, 100, 24),
    ]


def test_a_block_may_opt_in_to_all_but_the_reserved_kibibyte() -> None:
    for arch in KNOWN_ARCHS:
        row = limits_for(arch)
        assert row.smem_per_block_optin + row.smem_reserved_per_block == row.smem_per_sm


def test_every_row_says_where_it_is_printed() -> None:
    for arch in KNOWN_ARCHS:
        assert f", {arch.name}" in limits_for(arch).source


def test_suffixes_have_their_chips_limits() -> None:
    assert limits_for(Arch(9, 0, "a")) == limits_for(Arch(9, 0))


def test_an_arch_without_a_row_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="no limits are known for sm_75"):
        limits_for(Arch(7, 5))
