"""Logs as compilers printed them (tests/data/ptxas), and what a cut or failed one must not become."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkctl.errors import WorkFailed
from sparkctl.resources import ResourceUsage, parse_ptxas

LOGS = Path(__file__).parents[2] / "data" / "ptxas"
SMALL = "_Z12small_kernelILi32EfEvPT0_PKS0_i"
GOOD = ("two-archs", "device-calls", "rdc", "spills", "capped", "lower", "barriers", "cuda-11.8", "nvrtc")


def read(name: str) -> str:
    return (LOGS / f"{name}.log").read_text(encoding="utf-8")


def by_name(name: str) -> dict[str, ResourceUsage]:
    return {usage.demangled.partition("(")[0]: usage for usage in parse_ptxas(read(name))}


def test_a_log_of_two_archs_gives_the_kernel_twice() -> None:
    first, second = parse_ptxas(read("two-archs"))
    assert first == ResourceUsage(
        function=SMALL,
        demangled="void small_kernel<32, float>(float*, float const*, int)",
        arch="sm_80",
        kind="entry",
        registers=10,
        spill_store_bytes=0,
        spill_load_bytes=0,
        stack_bytes=0,
        cumulative_stack_bytes=None,
        static_smem_bytes=128,
        barriers=1,
        constant_bytes=372,
    )
    assert (second.arch, second.static_smem_bytes, second.constant_bytes) == ("sm_90a", 128, 0)


def test_a_device_function_keeps_its_numbers_to_itself() -> None:
    functions = by_name("device-calls")
    assert [usage.kind for usage in functions.values()] == ["entry", "device", "entry", "entry"]
    chain = functions["chain"]
    assert (chain.registers, chain.arch, chain.static_smem_bytes) == (None, "sm_86", None)
    stack = functions["stack_kernel"]
    assert (stack.stack_bytes, stack.cumulative_stack_bytes, stack.registers) == (256, 256, 38)


def test_spills_of_a_device_function_do_not_become_the_entrys() -> None:
    text = read("device-calls").replace(
        "chainPKfi\n    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads",
        "chainPKfi\n    24 bytes stack frame, 16 bytes spill stores, 20 bytes spill loads",
    )
    usages = parse_ptxas(text)
    assert [(u.kind, u.stack_bytes, u.spill_store_bytes, u.spill_load_bytes) for u in usages] == [
        ("entry", 0, 0, 0),
        ("device", 24, 16, 20),
        ("entry", 256, 0, 0),
        ("entry", 0, 0, 0),
    ]


def test_a_device_function_printed_inside_an_entrys_block_is_not_the_entry() -> None:
    inside = "ptxas info    : Function properties for _Z5chainPKfi\n" + (
        "    24 bytes stack frame, 16 bytes spill stores, 20 bytes spill loads\n"
    )
    entry = "ptxas info    : Function properties for _Z20four"
    chain, kernel = parse_ptxas(read("barriers").replace(entry, inside + entry))
    assert (chain.kind, chain.stack_bytes, chain.spills) == ("device", 24, True)
    assert (kernel.kind, kernel.stack_bytes, kernel.spills) == ("entry", 0, False)


def test_relocatable_code_shows_its_copies_and_leaves_shared_memory_open() -> None:
    usages = parse_ptxas(read("rdc"))
    assert [usage.function for usage in usages if not usage.is_entry] == ["_Z5chainPKfi$1", "_Z5chainPKfi"]
    assert usages[0].demangled == "chain(float const*, int)$1"
    assert all(usage.relocatable and usage.arch == "sm_90" for usage in usages)
    caller = next(usage for usage in usages if "caller" in usage.function)
    assert (caller.registers, caller.static_smem_bytes) == (24, None)  # it declares 256 bytes; the linker places them


def test_spills_warnings_and_the_cap_are_read() -> None:
    spilled = by_name("spills")["spill_kernel"]
    assert (spilled.spill_store_bytes, spilled.spill_load_bytes, spilled.stack_bytes) == (804, 844, 408)
    assert (spilled.registers, spilled.register_cap, spilled.spills) == (32, 32, True)
    assert by_name("capped")["bounded_kernel"].register_cap == 64
    assert by_name("lower")["void small_kernel<32, float>"].register_cap is None


def test_a_cap_stays_in_its_own_run() -> None:
    later = read("two-archs").replace(SMALL, "_Z14bounded_kernelPfPKfi")
    assert [usage.register_cap for usage in parse_ptxas(read("capped") + later)] == [64, None, None]


def test_barriers_are_the_highest_id_plus_one_and_unknown_on_an_old_toolkit() -> None:
    assert by_name("barriers")["four_barriers_kernel"].barriers == 4
    old = by_name("cuda-11.8")["old_kernel"]
    assert (old.barriers, old.registers, old.static_smem_bytes, old.constant_bytes) == (None, 9, 512, 364)


def test_an_nvrtc_log_reads_like_nvccs() -> None:
    functions = by_name("nvrtc")
    spilled = functions["spill_kernel"]
    assert (spilled.registers, spilled.spill_store_bytes, spilled.stack_bytes) == (40, 672, 456)
    assert functions["chain"].arch == "sm_89"


def test_every_constant_bank_counts() -> None:
    text = read("cuda-11.8").replace("364 bytes cmem[0]", "364 bytes cmem[0], 4 bytes cmem[2], 1 textures")
    assert parse_ptxas(text)[0].constant_bytes == 368


@pytest.mark.parametrize("name", GOOD)
def test_windows_line_ends_and_a_trailing_nul_change_nothing(name: str) -> None:
    text = read(name)
    assert parse_ptxas(text.replace("\n", "\r\n")) == parse_ptxas(text) == parse_ptxas(text + "\0")


def test_other_tools_messages_around_the_report_are_passed_over() -> None:
    noise = 'small.cu(3): warning #177-D: variable "error" was declared but never referenced\n\n'
    assert parse_ptxas(noise + read("two-archs") + noise) == parse_ptxas(read("two-archs"))


def test_a_file_without_kernels_has_no_functions() -> None:
    assert parse_ptxas("ptxas info    : 0 bytes gmem\n") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (read("too-much-smem"), "uses too much shared data (0x10000 bytes, 0xc000 max)"),
        (read("broken"), 'broken.cu(1): error: identifier "undefined_name" is undefined'),
        (read("two-archs") + "nvcc error   : 'ptxas' died due to signal 9\n", "died due to signal 9"),
        (read("two-archs") + "ptxas fatal   : Value 'sm_999' is not defined\n", "sm_999"),
        (read("two-archs") + "a.h:3:1: error: expected ';'\n", "expected ';'"),
        (read("two-archs") + "nvrtc: error: failed to open libnvrtc-builtins.so.13.0.\n", "failed to open"),
        (read("two-archs") + 'a.cu(1): error #20: identifier "x" is undefined\n', "error #20"),
        (read("two-archs") + "nvlink error   : Undefined reference to 'f'\n", "Undefined reference"),
        ("", "has no ptxas report"),
        ("nothing to see\n", "has no ptxas report"),
    ],
)
def test_a_failed_log_is_an_error_though_ptxas_still_prints_numbers(text: str, message: str) -> None:
    with pytest.raises(WorkFailed) as error:
        parse_ptxas(text)
    assert message in error.value.message


@pytest.mark.parametrize("name", GOOD)
def test_a_log_cut_anywhere_is_an_error_or_a_correct_beginning(name: str) -> None:
    text = read(name)
    whole = parse_ptxas(text)
    refused = 0
    for length in range(len(text)):
        try:
            part = parse_ptxas(text[:length])
        except WorkFailed:
            refused += 1
            continue
        assert [(u.function, u.registers, u.stack_bytes, u.spill_store_bytes, u.barriers) for u in part] == [
            (u.function, u.registers, u.stack_bytes, u.spill_store_bytes, u.barriers) for u in whole[: len(part)]
        ]
    assert refused > len(text) // 3


def test_interleaved_compiles_are_an_error() -> None:
    one, two = read("two-archs").splitlines(keepends=True), read("barriers").splitlines(keepends=True)
    mixed = "".join(line for pair in zip(one, two, strict=False) for line in pair)
    with pytest.raises(WorkFailed):
        parse_ptxas(mixed)


def facts(usage: ResourceUsage) -> tuple[object, ...]:
    """What must belong together. Static shared memory may become unknown beside relocatable code."""
    spills = usage.spill_store_bytes, usage.spill_load_bytes
    return (usage.function, usage.arch, usage.registers, *spills, usage.stack_bytes, usage.barriers)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(GOOD), st.sampled_from(GOOD), st.randoms(use_true_random=False), st.floats(0, 1))
def test_two_logs_mixed_line_by_line_are_an_error_or_right(first: str, second: str, draw: Random, share: float) -> None:
    """As two compilers that write to one file: never one kernel's numbers under another's name."""
    left, right = read(first).splitlines(keepends=True), read(second).splitlines(keepends=True)
    both = [usage for name in (first, second) for usage in parse_ptxas(read(name)) if usage.is_entry]
    right_answers = {facts(usage): usage.static_smem_bytes for usage in both}
    mixed = []
    while left or right:
        mixed.append((left if left and (not right or draw.random() < share) else right).pop(0))
    try:
        found = [usage for usage in parse_ptxas("".join(mixed)) if usage.is_entry]
    except WorkFailed:
        return
    for usage in found:
        assert facts(usage) in right_answers
        assert usage.static_smem_bytes in (None, right_answers[facts(usage)])


def test_two_archs_in_one_run_of_ptxas_are_two_compiles_in_one_log() -> None:
    """Whole blocks of a second compile, between the run's beginning and its end."""
    run, _, block = read("barriers").partition("\n")
    other = block.replace("for 'sm_", "for 'sm_1").replace("barrier", "carrier")
    assert other != block
    with pytest.raises(WorkFailed, match="in one run of ptxas"):
        parse_ptxas(f"{run}\n{block.rstrip()}\n{other}")


def test_the_same_kernel_twice_for_one_arch_is_an_error() -> None:
    with pytest.raises(WorkFailed, match="twice"):
        parse_ptxas(read("barriers") + read("barriers"))


def test_a_kernel_that_lost_its_registers_or_its_frame_is_an_error_and_not_left_out() -> None:
    lines = read("barriers").splitlines(keepends=True)
    (compiling,) = (at for at, line in enumerate(lines) if "Compiling" in line)
    (frame,) = (at for at, line in enumerate(lines) if "bytes stack frame" in line)
    (used,) = (at for at, line in enumerate(lines) if "Used" in line)
    other = read("spills")
    for text, message in (
        (other + "".join(lines[:used]), "ends before the registers of _Z"),
        ("".join(lines[:used]) + other, "has no registers yet"),
        ("".join(lines[:used]) + other.partition("\n")[2], "has no registers yet"),
        ("".join(lines[: compiling + 1] + lines[frame + 1 :]), "no entry function is waiting for it"),
    ):
        with pytest.raises(WorkFailed, match=message):
            parse_ptxas(text)
