"""The register report of real compiles, cross-checked with the objects themselves."""

from pathlib import Path

import pytest
from hungry_project import REGISTRY, SOURCE, whole_toolchain

from sparkctl.arch import parse_archs
from sparkctl.registry import load_registry
from sparkctl.toolchain import Toolchain, find_native_archs
from sparkctl.workflows.regs import read_variant, report_regs, verify_with_objects
from sparkctl.workflows.regs_model import RegsReport

pytestmark = pytest.mark.nvcc


@pytest.fixture(scope="module")
def toolchain() -> Toolchain:
    return whole_toolchain()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "csrc").mkdir()
    (tmp_path / "flags.yaml").write_text(REGISTRY, encoding="utf-8")
    (tmp_path / "csrc" / "hungry.cu").write_text(SOURCE, encoding="utf-8")
    return tmp_path


def report(project: Path, toolchain: Toolchain, archs: str, **options: object) -> RegsReport:
    return report_regs(
        load_registry(project / "flags.yaml"),
        (),
        archs=parse_archs(archs, native=find_native_archs),
        toolchain=toolchain,
        **options,  # type: ignore[arg-type]
    )


def test_the_report_agrees_with_the_objects_on_every_arch(project: Path, toolchain: Toolchain) -> None:
    result = report(project, toolchain, "sm_80,sm_90a,sm_120")
    assert [(row.variant.name, row.arch.name) for row in result.rows] == [
        (name, arch) for name in ("hungry.v16", "hungry.v64") for arch in ("sm_80", "sm_90a", "sm_120")
    ]
    assert verify_with_objects(result, toolchain) == ()
    for row in result.rows:
        values = row.variant.value("values")
        assert isinstance(values, int)
        assert row.registers > values  # each value lives in a register
        assert (row.static_smem_bytes, row.dynamic_smem_bytes) == (4 * values, 64 * values)
        assert row.usage.barriers == 1
        assert row.occupancy.blocks_per_sm > 0


def test_a_wrong_number_in_the_report_is_found(project: Path, toolchain: Toolchain) -> None:
    result = report(project, toolchain, "sm_80")
    log = result.rows[0].log
    log.write_text(log.read_text(encoding="utf-8").replace("64 bytes smem", "80 bytes smem"), encoding="utf-8")
    (changed,) = read_variant(log.parents[1], result.rows[0].variant, result.rows[0].arch)
    broken = RegsReport(result.compiler, result.profile, {}, result.archs, (changed,), ())
    (difference,) = verify_with_objects(broken, toolchain)
    assert "80 bytes of static smem in the log, 64 in the object" in difference


def test_a_cap_that_spills_shows_in_the_report(project: Path, toolchain: Toolchain) -> None:
    cap = "-maxrregcount=32 -override-directive-values"
    rows = {row.variant.name: row for row in report(project, toolchain, "sm_90", sets={"cap": cap}).rows}
    assert rows["hungry.v64"].spills
    assert rows["hungry.v64"].registers == 32
    assert not rows["hungry.v16"].usage.spill_store_bytes or rows["hungry.v16"].registers == 32


def test_a_second_report_compiles_nothing(project: Path, toolchain: Toolchain) -> None:
    before = {row.log: row.log.stat().st_mtime_ns for row in report(project, toolchain, "sm_90").rows}
    assert {row.log: row.log.stat().st_mtime_ns for row in report(project, toolchain, "sm_90").rows} == before


@pytest.mark.full
def test_every_variant_of_the_project_agrees_with_its_object(toolchain: Toolchain) -> None:
    registry = load_registry(Path(__file__).parents[2] / "flags.yaml")
    archs = parse_archs("sm_89,sm_90", native=find_native_archs)
    result = report_regs(registry, (), archs=archs, toolchain=toolchain)
    assert {row.variant.kernel.name for row in result.rows} == set(registry.kernels)
    assert verify_with_objects(result, toolchain) == ()
