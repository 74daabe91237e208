"""The numbers of docs/explanation/occupancy.md are what the calculator says."""

from __future__ import annotations

import pytest
from doc_pages import ROOT

from sparkctl.arch import parse_arch
from sparkctl.resources.occupancy import Occupancy, occupancy

PAGE = (ROOT / "docs" / "explanation" / "occupancy.md").read_text(encoding="utf-8")


def rows(header: str) -> list[list[str]]:
    """The cells of the table that opens with this header."""
    _, _, rest = PAGE.partition(f"| {header} |\n")
    lines = rest.partition("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def fits(arch: str, threads: int, registers: int, smem: int, barriers: int) -> Occupancy:
    return occupancy(
        parse_arch(arch), threads=threads, registers=registers, static_smem=0, dynamic_smem=smem, barriers=barriers
    )


def test_the_same_launch_on_two_archs() -> None:
    launches = rows("threads | registers | smem B | barriers | sm_89 | sm_90")
    assert len(launches) == 8
    for *numbers, sm_89, sm_90 in launches:
        for arch, said in (("sm_89", sm_89), ("sm_90", sm_90)):
            found = fits(arch, *map(int, numbers))
            names = " and ".join(found.limiters)
            if len(found.limiters) > 2:
                names = f"{', '.join(found.limiters[:-1])} and {found.limiters[-1]}"
            assert said == f"{found.blocks_per_sm}, {names}, {found.percent:.1f} %"


def test_the_table_of_registers() -> None:
    steps = rows("registers | a warp's share | warps per quarter, per SM | blocks of 8 warps")
    assert len(steps) == 4
    for registers, share, warps, blocks in steps:
        rounded = -(-int(registers) * 32 // 256) * 256
        quarter = 16384 // rounded
        assert (share, warps) == (str(rounded), f"{quarter}, {4 * quarter}")
        assert blocks == str(fits("sm_89", 256, int(registers), 0, 1).blocks_per_sm)


@pytest.mark.parametrize(("arch", "blocks"), [("sm_90", 4), ("sm_120", 1)])
def test_sixteen_barriers(arch: str, blocks: int) -> None:
    assert "with 16 barriers an SM holds 4 such blocks on sm_90 and one on sm_120" in PAGE
    assert fits(arch, 128, 32, 0, 16).blocks_per_sm == blocks
    assert fits(arch, 128, 32, 0, 16).limiters == ("barriers",)


def test_two_blocks_of_fifty_kib() -> None:
    assert "two blocks of 50 KiB do not fit" in PAGE
    assert fits("sm_89", 128, 32, 50 * 1024, 1).blocks_per_sm == 1
    assert fits("sm_89", 128, 32, 49 * 1024, 1).blocks_per_sm == 2
