"""One case under Nsight Compute, in the standalone runner: nothing but the kernel's launches is there to be counted."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from sparkctl.build import RUNNER_NAME, Progress, ensure_built, with_combines
from sparkctl.errors import MissingTool, UsageError, WorkFailed
from sparkctl.registry import Registry, Variant
from sparkctl.resources.counters import METRICS, STALL_SECTION, Launch, parse_counters
from sparkctl.testing.case_file import CASE_SUFFIX, encode_case
from sparkctl.testing.cases import cases_for
from sparkctl.testing.export import export_case, recorder_for, refusal
from sparkctl.testing.model import Case
from sparkctl.testing.results import Selection
from sparkctl.toolchain import Device, ToolResult, describe_failure, find_devices, start_tool
from sparkctl.toolchain.ncu import find_ncu
from sparkctl.workflows.suite import SuiteOptions, SuitePlan
from sparkctl.workflows.test import plan_suite

REAL_SIZE = ("model_shape", "device")  # labels
SHOWN = 8  # candidates that an error names
_UNKNOWN_METRIC = re.compile(r"Failed to find metric (?P<name>\S+)", re.IGNORECASE)
PERMISSION_HINT = (
    "run it as root, or let every user read them: the line\n"
    "options nvidia NVreg_RestrictProfilingToAdminUsers=0\n"
    "in /etc/modprobe.d/, then load the driver again; a container needs --cap-add=SYS_ADMIN"
)


@dataclass(frozen=True, slots=True)
class ProfilePlan:
    """What runs where."""

    variant: Variant
    case: Case
    device: Device
    suite: SuitePlan
    options: SuiteOptions
    ncu: Path
    metrics: tuple[str, ...]  # of one's own; empty: the usual few


@dataclass(frozen=True, slots=True)
class ProfileReport:
    """What was counted."""

    plan: ProfilePlan
    launches: tuple[Launch, ...]


def plan_profile(
    registry: Registry, options: SuiteOptions, metrics: tuple[str, ...], environ: Mapping[str, str] = os.environ
) -> ProfilePlan:
    """Raises MissingTool without a device or ncu, UsageError unless one variant and one case are selected."""
    devices = find_devices()
    if not devices:
        raise MissingTool("no CUDA device", hint="sparkctl regs and sparkctl sass need none")
    ncu = find_ncu(environ)
    options = replace(options, backend="cuda", full=True)
    suite = plan_suite(registry, options, environ)
    selection = _one_variant(suite.selections)
    case = _one_case(selection, narrowed=options.expression is not None)
    return ProfilePlan(selection.variant, case, devices[0], suite, options, ncu, metrics)


def run_profile(
    registry: Registry, plan: ProfilePlan, *, environ: Mapping[str, str] = os.environ, progress: Progress | None = None
) -> ProfileReport:
    """Builds what is missing, runs the case under ncu. WorkFailed where one of them fails."""
    folder = ensure_built(
        registry,
        with_combines(registry, [plan.variant]),
        arch=plan.suite.arch,
        backend="cuda",
        profile=plan.options.profile,
        sets=plan.options.sets,
        environ=environ,
        progress=progress,
        runner=True,
    )
    with TemporaryDirectory(prefix="sparkctl-profile-") as name:
        file, log = Path(name) / f"case{CASE_SUFFIX}", Path(name) / "ncu.csv"
        file.write_bytes(encode_case(export_case(recorder_for(registry), plan.variant, plan.case, plan.options.seed)))
        result = _run(ncu_command(plan, folder / RUNNER_NAME, file, log), Path(name), environ)
        said = log.read_text("utf-8", "replace") if log.is_file() else ""
    raise_ncu_failure(result, said)
    return ProfileReport(plan, parse_counters(said))


def ncu_command(plan: ProfilePlan, runner: Path, file: Path, log: Path) -> list[str]:
    """Clocks are left as they are; caches are flushed ahead of each pass, which is ncu's default. Pure."""
    words = [str(plan.ncu), "--csv", "--page", "raw", "--print-units", "base", "--log-file", str(log)]
    words += ["--clock-control", "none", "--cache-control", "all"]
    words += [] if plan.metrics else ["--section", STALL_SECTION]
    return [*words, "--metrics", ",".join(plan.metrics or METRICS), str(runner), str(file)]


def raise_ncu_failure(result: ToolResult, log: str) -> None:
    """WorkFailed where ncu or the case failed, with what is known about the usual reasons. Pure."""
    text = f"{log}\n{result.output}"
    if "ERR_NVGPUCTRPERM" in text:
        raise WorkFailed(
            "this user may not read the GPU's performance counters (ERR_NVGPUCTRPERM)", hint=PERMISSION_HINT
        )
    if match := _UNKNOWN_METRIC.search(text):
        name = match["name"].strip("'\".,")
        raise WorkFailed(f"ncu knows no metric {name} on this device", hint="ncu --query-metrics lists what it knows")
    failed = [line for line in result.output.splitlines() if line.startswith("FAIL ")]
    if failed:
        raise WorkFailed(f"the case failed under ncu: {failed[0]}", hint="sparkctl test runs it alone")
    if result.returncode != 0:
        kept = [line for line in log.splitlines() if line.startswith(("==ERROR==", "==WARNING=="))]
        raise WorkFailed("\n".join([describe_failure(result), *kept]))
    if "No kernels were profiled" in text:
        raise WorkFailed("ncu saw no kernel", hint="choose another case with -k: this one launches nothing")


def _run(argv: list[str], folder: Path, environ: Mapping[str, str]) -> ToolResult:
    """ncu and the runner below it end with us."""
    process = start_tool(argv, cwd=folder, env=environ)
    try:
        output, _ = process.communicate()
    except BaseException:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        raise
    return ToolResult(tuple(argv), process.returncode, output.decode("utf-8", "replace"), "")


def _one_variant(selections: tuple[Selection, ...]) -> Selection:
    if len(selections) == 1:
        return selections[0]
    names = [selection.variant.name for selection in selections]
    raise UsageError(
        f"one variant is profiled at a time, {len(names)} are selected", hint=f"choose one: {_some(names)}"
    )


def _one_case(selection: Selection, *, narrowed: bool) -> Case:
    """The only one that -k leaves; without it the first of real size that a device alone runs, else the last."""
    cases = [case for case in selection.cases if not refusal(case)]
    if not cases:
        raise UsageError("the selected cases cannot be written as files", hint="choose another one with -k")
    if narrowed and len(cases) > 1:
        ids = [case.id for case in cases]
        raise UsageError(f"one case is profiled at a time, -k selects {len(ids)}", hint=f"choose one: {_some(ids)}")
    quick = set(cases_for(selection.variant, "quick"))
    real = [case for case in cases if case not in quick and getattr(case, "label", "") in REAL_SIZE]
    return real[0] if real else cases[-1]


def _some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
