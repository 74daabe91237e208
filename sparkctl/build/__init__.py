"""From variants to a library: plan, ninja, cache, locks, and what each edge cost."""

from sparkctl.build.archs import DEFAULT_ARCH, choose_archs, default_archs
from sparkctl.build.ensure import ensure_built
from sparkctl.build.failures import raise_failures
from sparkctl.build.model import BuildPlan, BuildResult, Edge, EdgeResult, PlanResult
from sparkctl.build.plan import changed_flags, default_build_root, plan_build
from sparkctl.build.preview import Preview, PreviewStep, preview_build
from sparkctl.build.progress import Progress, SilentProgress
from sparkctl.build.runner import run_build
from sparkctl.build.sanitize import Sanitizer
from sparkctl.build.standalone import RUNNER_NAME, with_combines
from sparkctl.build.state import inputs_of

__all__ = [
    "DEFAULT_ARCH",
    "RUNNER_NAME",
    "BuildPlan",
    "BuildResult",
    "Edge",
    "EdgeResult",
    "PlanResult",
    "Preview",
    "PreviewStep",
    "Progress",
    "Sanitizer",
    "SilentProgress",
    "changed_flags",
    "choose_archs",
    "default_archs",
    "default_build_root",
    "ensure_built",
    "inputs_of",
    "plan_build",
    "preview_build",
    "raise_failures",
    "run_build",
    "with_combines",
]
