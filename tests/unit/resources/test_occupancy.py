"""Occupancy by hand-checked numbers; test_occupancy_oracle.py compares thousands of points with NVIDIA's header."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkctl.arch import KNOWN_ARCHS, Arch, limits_for, parse_arch
from sparkctl.errors import UsageError
from sparkctl.resources import BlockLimits, NextStep, Occupancy, next_step, occupancy

ARCHS = (80, 86, 87, 89, 90, 100, 103, 110, 120, 121)
LETTERS = {"warps": "W", "registers": "R", "shared_memory": "S", "blocks": "B", "barriers": "Bar"}

# threads, registers, dynamic smem, barriers -> blocks and limiters per arch of ARCHS, as the header gives them.
GOLDEN = {
    (128, 128, 16384, 1): "4 R | 4 R | 4 R | 4 R | 4 R | 4 R | 4 R | 4 R | 4 R | 4 R",
    (256, 168, 0, 1): "1 R | 1 R | 1 R | 1 R | 1 R | 1 R | 1 R | 1 R | 1 R | 1 R",
    (128, 255, 49152, 1): "2 R | 2 R+S | 2 R | 2 R+S | 2 R | 2 R | 2 R | 2 R | 2 R+S | 2 R+S",
    (128, 64, 0, 16): "8 R | 8 R | 8 R | 8 R | 4 Bar | 4 Bar | 2 Bar | 1 Bar | 1 Bar | 1 Bar",
    (128, 40, 101376, 1): "1 S | 1 S | 1 S | 1 S | 2 S | 2 S | 2 S | 2 S | 1 S | 1 S",
    (96, 80, 0, 0): "8 R | 8 R | 8 R | 8 R | 8 R | 8 R | 8 R | 8 R | 8 R | 8 R",
    (1024, 65, 0, 1): "0 R | 0 R | 0 R | 0 R | 0 R | 0 R | 0 R | 0 R | 0 R | 0 R",
}


@pytest.mark.parametrize("case", GOLDEN, ids=str)
def test_the_golden_table(case: tuple[int, int, int, int]) -> None:
    threads, registers, smem, barriers = case
    results = []
    for number in ARCHS:
        result = occupancy(
            parse_arch(str(number)),
            threads=threads,
            registers=registers,
            static_smem=0,
            dynamic_smem=smem,
            barriers=barriers,
        )
        results.append(f"{result.blocks_per_sm} {'+'.join(LETTERS[name] for name in result.limiters)}")
    assert " | ".join(results) == GOLDEN[case]


def test_a_result_has_warps_percent_and_the_count_of_every_limit() -> None:
    result = occupancy(Arch(9, 0), threads=128, registers=128, static_smem=1024, dynamic_smem=15360, barriers=1)
    assert result == Occupancy(
        blocks_per_sm=4,
        warps_per_sm=16,
        percent=25.0,
        limiters=("registers",),
        limits=BlockLimits(warps=16, registers=4, shared_memory=13, blocks=32, barriers=64),
    )


def test_every_tie_is_a_limiter() -> None:
    tiny = occupancy(Arch(8, 6), threads=96, registers=32, static_smem=0, dynamic_smem=0, barriers=1)
    assert (tiny.blocks_per_sm, tiny.percent) == (16, 100.0)
    assert tiny.limiters == ("warps", "blocks")


def test_barriers_alone_are_named_when_they_limit() -> None:
    result = occupancy(Arch(12, 0), threads=128, registers=64, static_smem=0, dynamic_smem=0, barriers=16)
    assert (result.blocks_per_sm, result.limiters) == (1, ("barriers",))


def test_a_log_without_barriers_counts_the_one_of_syncthreads() -> None:
    sizes = {"threads": 32, "registers": 16, "static_smem": 0, "dynamic_smem": 0}
    assert occupancy(Arch(12, 0), **sizes, barriers=None).limits.barriers == 24
    assert occupancy(Arch(8, 0), **sizes, barriers=None).limits.barriers is None


@pytest.mark.parametrize(
    ("threads", "registers", "smem", "limiters"),
    [
        (1025, 16, 0, ("warps",)),
        (1024, 65, 0, ("registers",)),
        (128, 16, 227 * 1024 + 1, ("shared_memory",)),
        (1025, 255, 228 * 1024, ("warps", "registers", "shared_memory")),
    ],
)
def test_a_block_that_cannot_launch_has_no_blocks_and_says_why(
    threads: int, registers: int, smem: int, limiters: tuple[str, ...]
) -> None:
    result = occupancy(Arch(9, 0), threads=threads, registers=registers, static_smem=smem, dynamic_smem=0, barriers=1)
    assert (result.blocks_per_sm, result.percent, result.limiters) == (0, 0.0, limiters)


@pytest.mark.parametrize("size", ["threads", "registers", "static_smem", "dynamic_smem", "barriers"])
def test_a_negative_size_is_refused(size: str) -> None:
    sizes = {"threads": 1, "registers": 0, "static_smem": 0, "dynamic_smem": 0, "barriers": 0, size: -1}
    with pytest.raises(UsageError, match="no occupancy of a block"):
        occupancy(Arch(9, 0), **sizes)


def test_the_next_step_by_registers() -> None:
    step = next_step(Arch(8, 9), threads=128, registers=102, smem=0, barriers=1)
    assert step == NextStep(
        blocks_per_sm=5, percent=100 * 20 / 48, registers=96, smem_bytes=None, registers_fewer=6, smem_bytes_fewer=0
    )


def test_a_step_says_how_many_blocks_it_really_gives() -> None:
    step = next_step(Arch(9, 0), threads=128, registers=36, smem=2048, barriers=1)
    assert step is not None
    assert (step.registers_fewer, step.blocks_per_sm, step.percent) == (4, 16, 100.0)  # 13 to 15 do not exist


def test_the_next_step_by_shared_memory_and_by_both() -> None:
    smem = next_step(Arch(8, 9), threads=128, registers=40, smem=49152, barriers=1)
    assert smem is not None
    assert (smem.blocks_per_sm, smem.registers, smem.smem_bytes, smem.smem_bytes_fewer) == (3, None, 33024, 16128)
    both = next_step(Arch(8, 9), threads=128, registers=255, smem=49152, barriers=1)
    assert both is not None
    assert (both.blocks_per_sm, both.registers, both.smem_bytes) == (3, 168, 33024)


def test_no_step_where_the_warps_the_slots_or_the_barriers_are_the_limit() -> None:
    assert next_step(Arch(9, 0), threads=1024, registers=32, smem=0, barriers=1) is None
    assert next_step(Arch(9, 0), threads=32, registers=32, smem=0, barriers=1) is None
    assert next_step(Arch(12, 0), threads=128, registers=64, smem=0, barriers=16) is None


def test_the_next_step_of_a_block_that_cannot_launch_is_to_launch() -> None:
    step = next_step(Arch(9, 0), threads=1024, registers=65, smem=0, barriers=1)
    assert step is not None
    assert (step.blocks_per_sm, step.registers) == (1, 64)


@settings(max_examples=300, deadline=None)
@given(
    arch=st.sampled_from(KNOWN_ARCHS),
    threads=st.integers(1, 1024),
    registers=st.integers(1, 255),
    smem=st.integers(0, 227 * 1024),
    barriers=st.integers(0, 16),
)
def test_a_next_step_is_reached_exactly_and_nothing_less_reaches_it(
    arch: Arch, threads: int, registers: int, smem: int, barriers: int
) -> None:
    def blocks(registers: int, smem: int) -> int:
        result = occupancy(
            arch, threads=threads, registers=registers, static_smem=smem, dynamic_smem=0, barriers=barriers
        )
        return result.blocks_per_sm

    step = next_step(arch, threads=threads, registers=registers, smem=smem, barriers=barriers)
    now = blocks(registers, smem)
    if step is None:
        assert blocks(1, 0) == now
        return
    new_registers, new_smem = step.registers or registers, smem if step.smem_bytes is None else step.smem_bytes
    assert blocks(new_registers, new_smem) == step.blocks_per_sm > now
    if step.registers is not None:
        assert blocks(step.registers + 1, new_smem) <= now
    if step.smem_bytes is not None:
        assert blocks(new_registers, step.smem_bytes + 1) <= now


def test_the_opt_in_limit_itself_fits_once_on_every_arch() -> None:
    for arch in KNOWN_ARCHS:
        most = limits_for(arch).smem_per_block_optin
        result = occupancy(arch, threads=128, registers=32, static_smem=0, dynamic_smem=most, barriers=1)
        assert (result.blocks_per_sm, result.limiters) == (1, ("shared_memory",))
