"""The `sparkctl` program: global options, lazy commands, and the one place that turns errors into text and exit codes.

How a command joins: add its row to COMMANDS and write `sparkctl/cli/<name>.py` with one function,

    def register(app: typer.Typer) -> None:
        app.command("name", help=HELP)(name)        # or app.add_typer(group, name="name") for subcommands

The module is imported only when its command runs or completes, so it may import typer, sparkctl.cli.options and
sparkctl.errors at the top; everything else (registry, render, torch, …) inside the function. `cli/flags.py` is the
template: read the options, call, render. Work raises SparkctlError; nothing in cli/ calls sys.exit or prints errors.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

from sparkctl import __version__
from sparkctl.cli.options import CliContext
from sparkctl.errors import SparkctlError
from sparkctl.interrupts import watch_interrupts
from sparkctl.render.console import prepare_streams

PROGRAM = "sparkctl"
COMPLETION_VARIABLE = "_SPARKCTL_COMPLETE"
INTERRUPTED = 130
BROKEN_PIPE = 141


@dataclass(frozen=True, slots=True)
class CommandRow:
    """A command as `sparkctl --help` shows it; the module is `sparkctl.cli.<name>`."""

    name: str
    summary: str


COMMANDS = (
    CommandRow("build", "Compile what changed, one object per variant."),
    CommandRow("regs", "Registers, spills, shared memory and occupancy of every variant."),
    CommandRow("sass", "Machine code of variants: instruction mix, listing, source lines."),
    CommandRow("ptx", "PTX of variants: the same of what nvcc hands to ptxas."),
    CommandRow("test", "Run the kernels' cases against the fp64 reference."),
    CommandRow("accuracy", "Judge kernels against fp64, bit by bit, and in a model's answers."),
    CommandRow("bench", "Time kernels on a device, with noise, ceilings and peers."),
    CommandRow("proof", "The before and after of a change: tests, accuracy, registers, times."),
    CommandRow("profile", "Nsight Compute on one case: the few metrics that matter."),
    CommandRow("watch", "Rebuild on save: registers before and after, and a few tests."),
    CommandRow("list", "Kernels, their axes and what is built."),
    CommandRow("cache", "The compile cache: hits, size, savings; clear, prune."),
    CommandRow("doctor", "What this machine has and lacks, and what helps."),
    CommandRow("clean", "Remove what was built, never the cache."),
    CommandRow("init", "A flags.yaml for a folder of your own .cu files."),
    CommandRow("new", "A new kernel of your own that builds and passes at once."),
    CommandRow("flags", "The registry: show flags, explain their values, check the file."),
)

HELP = """The command-line kernel development toolkit for CUDA: edit a kernel, then build, regs, test and bench.

\b
Examples:
  sparkctl list                             what there is and what is built
  sparkctl build --arch sm_90a              compile what changed for one arch
  sparkctl regs attn_decode_split_kv_mma    registers, spills and occupancy
  sparkctl test 'attn_decode_*' --head-dim 128
  sparkctl bench --seq 4k,16k
  sparkctl flags explain attn_combine       which source set which flag

\b
Exit codes: 0 done, 1 the work failed, 2 wrong usage or an empty selection,
3 a tool or device is missing, 130 interrupted.
"""


class LazyGroup(TyperGroup):
    """Lists commands from COMMANDS and imports a command's module only to run or complete it."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [row.name for row in COMMANDS if find_spec(f"sparkctl.cli.{row.name}")]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A stand-in with the summary: enough for help and for completing command names."""
        summaries = {row.name: row.summary for row in COMMANDS}
        if cmd_name not in summaries or not find_spec(f"sparkctl.cli.{cmd_name}"):
            return None
        return TyperCommand(cmd_name, help=summaries[cmd_name], rich_markup_mode=None)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        if args[0] not in self.list_commands(ctx):
            if ctx.resilient_parsing:
                return None, None, args[1:]
            raise _unknown_command(args[0], self.list_commands(ctx))
        return args[0], load_command(args[0]), args[1:]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line; the result is the exit code."""
    args = hoist_globals(sys.argv[1:] if argv is None else list(argv))
    prepare_streams()
    try:
        with watch_interrupts(last=argv is None):
            return _run(list(args))  # the parser empties the list that it gets
    except BrokenPipeError:
        # The reader has gone (`| head`): point stdout elsewhere, or the interpreter complains when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except (KeyboardInterrupt, typer.Abort):
        _print_error(args, "interrupted", None)
        return INTERRUPTED
    except typer.Exit as stop:
        return stop.exit_code
    except SparkctlError as error:
        _print_error(args, error.message, error.hint)
        return _with_traceback(error.exit_code, args)
    except typer.TyperException as error:
        _print_error(args, *_usage_error(error))
        return _with_traceback(2, args)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _print_error(args, f"{where}{error.strerror or error}", None)
        return _with_traceback(1, args)
    except Exception as error:
        detail = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        _print_error(args, f"a bug in sparkctl: {detail}", "sparkctl --debug … shows where; please report it with that")
        return _with_traceback(1, args)


GLOBAL_FLAGS = ("-v", "-vv", "--verbose", "-q", "--quiet", "--no-color", "--debug")


def hoist_globals(args: Sequence[str]) -> list[str]:
    """Global options may stand behind the command too: `sparkctl list -v`. Nothing behind `--` is touched."""
    front: list[str] = []
    rest: list[str] = []
    words = iter(args)
    for word in words:
        if word == "--":
            rest += [word, *words]
        elif word in GLOBAL_FLAGS or word.startswith("--project="):
            front.append(word)
        elif word == "--project":
            front += [word, *[value for value in [next(words, None)] if value is not None]]
        else:
            rest.append(word)
    return front + rest


def _run(args: list[str]) -> int:
    group = root_command()
    if COMPLETION_VARIABLE in os.environ:
        group.main(args, prog_name=PROGRAM)
    if not [word for word in args if word not in ("--help", "-h", *GLOBAL_FLAGS)]:
        # Help without parsing: typer's parser imports pydantic, which takes longer than all the rest.
        print(group.get_help(typer.Context(group, info_name=PROGRAM, **group.context_settings)))
        return 0
    with group.make_context(PROGRAM, args) as context:
        group.invoke(context)
    sys.stdout.flush()
    return 0


def root_command() -> TyperGroup:
    """The program: its global options and, in place of each command, a stand-in with its summary."""
    app = typer.Typer(
        cls=LazyGroup,
        help=HELP,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
        subcommand_metavar="COMMAND …",
        options_metavar="[OPTIONS]",
    )
    app.callback()(_globals)
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    return group


def _show_version(asked: bool) -> None:
    if asked:
        print(f"{PROGRAM} {__version__}")
        raise typer.Exit(0)


def _globals(
    context: typer.Context,
    project: Annotated[
        str | None, typer.Option(metavar="DIR", help="The folder with flags.yaml; else this one or one above.")
    ] = None,
    verbose: Annotated[
        int, typer.Option("-v", "--verbose", count=True, show_default=False, help="More detail; twice for more.")
    ] = 0,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Results and errors only.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colour; NO_COLOR does the same.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and stop.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    from pathlib import Path

    context.obj = CliContext(
        project=Path(project) if project is not None else None,
        verbosity=-1 if quiet else verbose,
        color=False if no_color else None,
        debug=debug,
    )


def load_command(name: str) -> Any:
    """The command itself, its module imported."""
    app = typer.Typer(rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]})
    app.callback()(lambda: None)  # with a callback, typer always makes a group, even of one command
    import_module(f"sparkctl.cli.{name}").register(app)
    command: Any = typer.main.get_group(app).commands[name]
    for part in (command, *getattr(command, "commands", {}).values()):
        part.parse_args = _naming_the_command(part.parse_args)
        for argument in part.params:
            if isinstance(argument, TyperArgument):
                argument.display_type_rich = lambda ctx: None  # type: ignore[method-assign]  # no `KERNEL <list[str]>`
    return command


def _naming_the_command(parse: Callable[..., Any]) -> Callable[..., Any]:
    """The parser's complaints about an option without its value lack the context that says whose option it is."""

    def parse_args(context: Any, args: list[str]) -> Any:
        try:
            return parse(context, args)
        except typer.TyperException as error:
            if getattr(error, "ctx", None) is None:
                error.ctx = context  # type: ignore[attr-defined]
            raise

    return parse_args


def _unknown_command(name: str, known: list[str]) -> SparkctlError:
    from sparkctl.errors import UsageError
    from sparkctl.registry.suggest import did_you_mean

    return UsageError(f"no command '{name}'", hint=did_you_mean(name, known))


def _usage_error(error: typer.TyperException) -> tuple[str, str]:
    """The parser's complaint in our form: message and hint."""
    context: typer.Context | None = getattr(error, "ctx", None)
    near: Sequence[str] = getattr(error, "possibilities", None) or ()
    text, _, guess = (error.message if near else error.format_message()).partition(" Did you mean ")
    text = text.replace("Value error, ", "").strip().rstrip(".")  # typer's validator names its exception's class
    if near or guess:
        return text[:1].lower() + text[1:], f"did you mean {guess or repr(near[0]) + '?'}"
    return text[:1].lower() + text[1:], f"{context.command_path if context else PROGRAM} --help"


def _with_traceback(code: int, args: list[str]) -> int:
    if "--debug" in args:
        import traceback

        traceback.print_exc()
    return code


def _print_error(args: Sequence[str], message: str, hint: str | None) -> None:
    """`error: …` and `hint: …` on stderr; further lines are indented below the first."""
    color = sys.stderr.isatty() and not os.environ.get("NO_COLOR") and "--no-color" not in args
    for label, text, code in (("error", message, "1;31"), ("hint", hint, "36")):
        if text:
            shown = f"\033[{code}m{label}:\033[0m" if color else f"{label}:"
            print(shown, text.replace("\n", "\n" + " " * (len(label) + 2)), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
