"""Options that several commands share: their types, help, completion, and what they mean."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparkctl.errors import UsageError

if TYPE_CHECKING:
    from sparkctl.registry import Registry


@dataclass(frozen=True, slots=True)
class CliContext:
    """The global options; commands get it from `cli_context(ctx)`."""

    project: Path | None = None
    verbosity: int = 0  # -1 quiet, 0 normal, 1 -v, 2 -vv
    color: bool | None = None  # None: decided by the terminal and NO_COLOR
    debug: bool = False


def cli_context(context: typer.Context) -> CliContext:
    """The global options of this call."""
    return context.obj if isinstance(context.obj, CliContext) else CliContext()


def load_project(cli: CliContext) -> Registry:
    """The registry that --project or the current folder names."""
    from sparkctl.registry import load_registry

    return load_registry(project_folder(cli))


def project_folder(cli: CliContext) -> Path:
    """The folder of the project; where nothing names one, a message on stderr says which it is."""
    from sparkctl.registry import find_project

    folder = find_project(cli.project)
    if cli.project is None and cli.verbosity >= 0 and not Path.cwd().resolve().is_relative_to(folder):
        from sparkctl.render.console import stderr_console

        text = f"using the kernels that come with sparkctl: {folder}\nhint: --project DIR names another project"
        stderr_console(cli).print(text, soft_wrap=True)
    return folder


def split_commas(values: Sequence[str] | None) -> list[str]:
    """Repeated options and comma lists alike: ["128,64", "32"] to ["128", "64", "32"]."""
    return [part.strip() for value in values or () for part in value.split(",") if part.strip()]


def parse_where(
    where: Sequence[str] | None, head_dim: Sequence[str] | None = None, dtype: Sequence[str] | None = None
) -> dict[str, list[str]]:
    """`--where AXIS=VALUE[,VALUE]` and its shortcuts, as select_variants takes them."""
    result: dict[str, list[str]] = {}
    for item in where or ():
        axis, equals, values = item.partition("=")
        if not equals or not axis.strip() or not split_commas([values]):
            raise UsageError(f"--where {item}: no value", hint="write it as --where AXIS=VALUE or AXIS=VALUE,VALUE")
        result.setdefault(axis.strip(), []).extend(split_commas([values]))
    for axis, shortcut in (("head_dim", head_dim), ("dtype", dtype)):
        if shortcut:
            result.setdefault(axis, []).extend(split_commas(shortcut))
    return result


def runtime_flags(registry: Registry, sets: Mapping[str, str], *, without: str | None) -> dict[str, str]:
    """Flags that are read at each call, from the environment and --set; of what --ab varies, only --set's."""
    from sparkctl.registry.values import environment_values

    given = {name: value for name, value in environment_values(registry, os.environ).items() if name != without}
    return {name: value for name, value in {**given, **sets}.items() if registry.flags[name].kind == "runtime"}


def complete_kernels(context: typer.Context, incomplete: str) -> list[str]:
    return [name for name in _registry_names(context, "kernels") if name.startswith(incomplete)]


def complete_suites(context: typer.Context, incomplete: str) -> list[str]:
    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in _registry_names(context, "suites") if name.startswith(last)]


def _complete_profiles(context: typer.Context, incomplete: str) -> list[str]:
    return [name for name in _registry_names(context, "profiles") if name.startswith(incomplete)]


def _complete_flags(context: typer.Context, incomplete: str) -> list[str]:
    return [f"{name}=" for name in _registry_names(context, "flags") if name.startswith(incomplete)]


def _complete_archs(incomplete: str) -> list[str]:
    from sparkctl.arch import KNOWN_ARCHS

    before, comma, last = incomplete.rpartition(",")
    names = [*(arch.name for arch in KNOWN_ARCHS), "native", "all"]
    return [before + comma + name for name in names if name.startswith(last)]


def _registry_names(context: typer.Context, table: str) -> list[str]:
    """A completion must never print an error: a broken registry completes nothing."""
    from sparkctl.registry import find_project, load_registry

    try:
        return list(getattr(load_registry(find_project(cli_context(context).project)), table))
    except Exception:
        return []


Kernels = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KERNEL",
        help="Kernel names or globs, or variant names; all if left out.",
        autocompletion=complete_kernels,
        show_default=False,
    ),
]
KernelsOrFiles = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KERNEL|FILE",
        help="Kernel names or globs, or variant names; all if left out. Or .cu files, saved logs, objects.",
        autocompletion=complete_kernels,
        show_default=False,
    ),
]
OneKernel = Annotated[str, typer.Argument(metavar="KERNEL", help="A kernel's name.", autocompletion=complete_kernels)]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where", metavar="AXIS=VALUE", help="Only variants with this value; repeatable, commas list several."
    ),
]
HeadDim = Annotated[list[str] | None, typer.Option("--head-dim", metavar="N", help="Short for --where head_dim=N.")]
Dtype = Annotated[list[str] | None, typer.Option("--dtype", metavar="TYPE", help="Short for --where dtype=TYPE.")]
Archs = Annotated[
    str | None,
    typer.Option(
        "--arch", metavar="ARCH", help="sm_90, 9.0, native, all, or a comma list.", autocompletion=_complete_archs
    ),
]
OneArch = Annotated[
    str | None, typer.Option("--arch", metavar="ARCH", help="One arch: sm_90a, 9.0.", autocompletion=_complete_archs)
]
Profile = Annotated[
    str,
    typer.Option("--profile", metavar="NAME", help="A profile of flags.yaml.", autocompletion=_complete_profiles),
]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FLAG=VALUE", help="Set a flag; repeatable.", autocompletion=_complete_flags),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
