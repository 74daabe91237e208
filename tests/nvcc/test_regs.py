"""The register report of real compiles, cross-checked with the objects themselves."""

from dataclasses import replace
from pathlib import Path

import pytest
from hungry_project import REGISTRY, SOURCE, whole_toolchain

from sparkctl.arch import parse_archs
from sparkctl.errors import WorkFailed
from sparkctl.registry import load_registry
from sparkctl.toolchain import Toolchain, find_native_archs, run_tool
from sparkctl.workflows.regs import read_variant, report_regs, verify_with_objects
from sparkctl.workflows.regs_caps import FLAG_TEXT, sweep_files, sweep_registry
from sparkctl.workflows.regs_inputs import FileOptions, report_files
from sparkctl.workflows.regs_model import RegsReport
from sparkctl.workflows.regs_vs import Selected

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


def test_any_source_is_compiled_and_its_object_says_the_same(project: Path, toolchain: Toolchain) -> None:
    source = project / "alone.cu"
    source.write_text("#define SPARK_BLOCK 128\n#define SPARK_VALUES 64\n" + SOURCE, encoding="utf-8")
    archs = parse_archs("sm_80,sm_90", native=find_native_archs)
    options = FileOptions(archs, archs, block_threads=128, dynamic_smem_bytes=4096)
    result = report_files([source], options, toolchain=toolchain)
    assert [(row.name, row.arch.name, row.kernel) for row in result.rows] == [
        ("hungry_kernel<64>", "sm_80", "alone.cu"),
        ("hungry_kernel<64>", "sm_90", "alone.cu"),
    ]
    assert all(row.occupancy and row.occupancy.blocks_per_sm > 0 and not row.usage.spills for row in result.rows)
    built = project / "alone.o"
    nvcc = toolchain.require_nvcc()
    run_tool([nvcc.path, "-c", source, "-o", built, "-std=c++17", "-O3", *(word for a in archs for word in a.gencode)])
    objects = report_files([built], replace(options, archs=None), toolchain=toolchain)
    known = [(row.arch.name, row.registers, row.static_smem_bytes) for row in result.rows]
    assert [(row.arch.name, row.registers, row.static_smem_bytes) for row in objects.rows] == known
    assert {(row.usage.spill_store_bytes, row.usage.barriers) for row in objects.rows} == {(None, None)}


def test_a_source_that_does_not_compile_says_what_the_compiler_said(project: Path, toolchain: Toolchain) -> None:
    source = project / "broken.cu"
    source.write_text("__global__ void f() { undefined_name = 1; }\n", encoding="utf-8")
    archs = parse_archs("sm_90", native=find_native_archs)
    with pytest.raises(WorkFailed, match=r"broken.cu does not compile for sm_90\n.*undefined_name"):
        report_files([source], FileOptions(archs, archs), toolchain=toolchain)


def test_a_sweep_of_caps_shows_what_registers_cost_in_spills(project: Path, toolchain: Toolchain) -> None:
    text = (project / "flags.yaml").read_text().replace("flags:\n", f"flags:\n{FLAG_TEXT}\n", 1)
    (project / "flags.yaml").write_text(text)
    archs = parse_archs("sm_90", native=find_native_archs)
    selected = Selected(("hungry.v64",), archs, {}, "release", {})
    sweep = sweep_registry(load_registry(project / "flags.yaml"), selected, (40, 255), toolchain=toolchain)
    free, tight, wide = sweep.rows
    assert [(one.asked, one.cap) for one in sweep.rows] == [(None, None), (40, 40), (255, 255)]
    assert tight.row.registers == 40 < free.row.registers
    assert (free.row.usage.spills, tight.row.usage.spills, wide.row.usage.spills) == (False, True, False)
    assert tight.row.occupancy and free.row.occupancy
    assert tight.row.occupancy.warps_per_sm > free.row.occupancy.warps_per_sm
    source = project / "alone.cu"
    source.write_text("#define SPARK_BLOCK 128\n#define SPARK_VALUES 64\n" + SOURCE, encoding="utf-8")
    same = sweep_files([source], FileOptions(archs, archs, block_threads=128), (40,), toolchain=toolchain)
    assert [one.row.registers for one in same.rows] == [free.row.registers, 40]


LONELY = """\
__global__ void lonely(float* y) {
  __shared__ float tile[256];
  tile[threadIdx.x] = y[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = tile[255 - threadIdx.x];
}
"""


@pytest.mark.parametrize("form", [["-cubin"], ["-fatbin"], ["-c"]], ids=lambda form: form[0])
def test_a_cubin_a_fatbin_and_an_object_say_the_same(tmp_path: Path, toolchain: Toolchain, form: list[str]) -> None:
    (tmp_path / "lonely.cu").write_text(LONELY)
    run_tool([toolchain.require_nvcc().path, *form, "-arch=sm_90", tmp_path / "lonely.cu", "-o", tmp_path / "made"])
    (row,) = report_files([tmp_path / "made"], FileOptions(None, (), block_threads=256), toolchain=toolchain).rows
    assert (row.arch.name, row.static_smem_bytes, row.usage.relocatable) == ("sm_90", 1024, False)
    assert row.occupancy is not None


def test_relocatable_code_has_no_final_shared_memory_and_no_occupancy(tmp_path: Path, toolchain: Toolchain) -> None:
    """Though no device function is called, so that no copy of one gives it away."""
    source, built = tmp_path / "lonely.cu", tmp_path / "lonely.o"
    source.write_text(LONELY)
    archs = parse_archs("sm_80,sm_90", native=find_native_archs)
    options = FileOptions(archs, archs, block_threads=256, nvcc=("-rdc=true",))
    words = [word for arch in archs for word in arch.gencode]
    run_tool([toolchain.require_nvcc().path, "-rdc=true", "-c", source, "-o", built, *words])
    for path in (source, built):
        rows = report_files([path], options, toolchain=toolchain).rows
        assert [(row.arch.name, row.static_smem_bytes, row.occupancy) for row in rows] == [
            ("sm_80", None, None),
            ("sm_90", None, None),
        ]
