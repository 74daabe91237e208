"""What a build would do, without touching anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkctl.build.model import BuildPlan
from sparkctl.build.ninja_text import LINK_NAME, RUNNER_LINK_NAME, compile_shell, link_shell
from sparkctl.build.paths import LINKS_NAME, path_text
from sparkctl.build.survey import survey_folder
from sparkctl.toolchain import prepare_cache


@dataclass(frozen=True, slots=True)
class PreviewStep:
    """One shell line, and why it would run."""

    name: str
    reason: str
    shell: str


@dataclass(frozen=True, slots=True)
class Preview:
    """The steps of one library, and the cache's settings that they run under."""

    label: str
    cwd: Path
    environ: tuple[tuple[str, str], ...]
    folders: tuple[str, ...]  # that must be there
    links: tuple[tuple[str, str], ...]  # symlink, target
    steps: tuple[PreviewStep, ...]
    up_to_date: int

    @property
    def links_library(self) -> bool:
        """Whether the library is linked again."""
        return any(step.name == LINK_NAME for step in self.steps)

    @property
    def links_runner(self) -> bool:
        """Whether the standalone test runner is linked again."""
        return any(step.name == RUNNER_LINK_NAME for step in self.steps)

    @property
    def compiles(self) -> int:
        """How many compilers run."""
        return len(self.steps) - self.links_library - self.links_runner


def preview_build(plans: Sequence[BuildPlan]) -> tuple[Preview, ...]:
    """The exact commands that a build would run now, in no particular order."""
    return tuple(_preview(plan) for plan in plans)


def _preview(plan: BuildPlan) -> Preview:
    survey = survey_folder(plan)
    cache = prepare_cache(
        plan.toolchain.ccache,
        environ=plan.environ,
        root=plan.root,
        compilers=plan.compiler_identity,
        temp=plan.folder / "tmp",
        private=plan.has_line_info,
        look=False,
    )
    environ = dict(cache.environ)
    if cache.program:
        environ["SPARKCTL_CCACHE"] = str(cache.program)
    steps = [
        PreviewStep(edge.name, survey.reasons[edge.name], compile_shell(edge, survey.salts[edge.name]))
        for edge in survey.edges
        if edge.name in survey.reasons
    ]
    up_to_date = len(survey.edges) - len(steps)
    for link, reason in survey.due_links():
        steps.append(PreviewStep(link.name, reason, link_shell(link, link.objects(survey.edges))))
    objects = sorted({str(Path(edge.output).parent) for edge in survey.edges})
    return Preview(
        label=plan.label,
        cwd=plan.root,
        environ=tuple(sorted(environ.items())),
        folders=(
            path_text(plan.build_root / LINKS_NAME, plan.root),
            path_text(plan.folder / "tmp", plan.root),
            *objects,
        ),
        links=tuple((path_text(link, plan.root), str(target)) for link, target in plan.paths.links),
        steps=tuple(steps),
        up_to_date=up_to_date,
    )
