"""`python -m sparkctl`, and what the command starts."""

import sys


def run() -> int:
    """The program's exit code; Ctrl-C while the modules are still read ends as it does later."""
    try:
        from sparkctl.cli.app import main
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        return 130
    return main()


if __name__ == "__main__":
    sys.exit(run())
