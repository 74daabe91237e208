"""The object's own numbers beside the log's."""

from dataclasses import replace
from pathlib import Path

import pytest

from sparkctl.errors import WorkFailed
from sparkctl.resources import ObjectUsage, compare_with_object, parse_ptxas, parse_resource_usage

DATA = Path(__file__).parents[2] / "data" / "ptxas"
SMALL = "_Z12small_kernelILi32EfEvPT0_PKS0_i"
LISTING = (DATA / "two-archs.resource-usage.txt").read_text(encoding="utf-8")
LOG = parse_ptxas((DATA / "two-archs.log").read_text(encoding="utf-8"))


def test_the_reserved_kibibyte_of_newer_archs_is_taken_off() -> None:
    assert "SHARED:128" in LISTING
    assert "SHARED:1152" in LISTING
    assert parse_resource_usage(LISTING) == (
        ObjectUsage(SMALL, "sm_80", registers=10, stack_bytes=0, static_smem_bytes=128),
        ObjectUsage(SMALL, "sm_90a", registers=10, stack_bytes=0, static_smem_bytes=128),
    )


def test_log_and_object_of_one_compile_agree() -> None:
    assert compare_with_object(LOG, parse_resource_usage(LISTING)) == ()


def test_relocatable_code_and_its_device_functions_agree() -> None:
    objects = parse_resource_usage((DATA / "rdc.resource-usage.txt").read_text(encoding="utf-8"))
    assert {usage.static_smem_bytes for usage in objects} == {0}
    assert compare_with_object(parse_ptxas((DATA / "rdc.log").read_text(encoding="utf-8")), objects) == ()


def test_every_disagreement_is_named() -> None:
    objects = parse_resource_usage(LISTING)
    log = [
        replace(LOG[0], registers=11, static_smem_bytes=0),
        replace(LOG[1], function="_Z5otherv", demangled="other()"),
    ]
    assert compare_with_object(log, objects) == (
        "void small_kernel<32, float>(float*, float const*, int) for sm_80: 11 registers in the log, 10 in the object",
        "void small_kernel<32, float>(float*, float const*, int) for sm_80: "
        "0 bytes of static smem in the log, 128 in the object",
        "other() for sm_90a: not in the object",
        f"{SMALL} for sm_90a: not in the log",
    )


@pytest.mark.parametrize("text", ["", "No device code\n", LISTING[: LISTING.rindex("REG:")]])
def test_a_listing_that_is_none_or_cut_is_an_error(text: str) -> None:
    with pytest.raises(WorkFailed, match="no whole resource usage"):
        parse_resource_usage(text)
