"""Writes docs/reference/ from the code: `python docs/tools/generate_reference.py [--check] [FOLDER]`.

commands.md is the program's own help, flags.md what flags.yaml says, keys.md what it may say, archs.md the limits of
each compute capability. With --check nothing is written, and the exit code is 1 if a page differs from the code.
"""

from __future__ import annotations

import sys
from pathlib import Path

from reference_commands import commands_page
from reference_registry import archs_page, flags_page
from reference_schema import keys_page

from sparkctl.registry import load_registry

ROOT = Path(__file__).resolve().parents[2]
MARK = "<!-- Written by `make reference` from the code. Change the code, not this page. -->"


def pages() -> dict[str, str]:
    """File name to text."""
    registry = load_registry(ROOT)
    bodies = {
        "commands.md": commands_page(),
        "flags.md": flags_page(registry),
        "keys.md": keys_page(),
        "archs.md": archs_page(),
    }
    return {name: f"{MARK}\n\n{body.rstrip()}\n" for name, body in bodies.items()}


def main(args: list[str]) -> int:
    folders = [Path(word) for word in args if word != "--check"]
    folder = folders[0] if folders else ROOT / "docs" / "reference"
    written = pages()
    differing = [name for name, text in written.items() if read(folder / name) != text]
    if "--check" in args:
        for name in differing:
            print(f"{folder / name} is not what the code says: make reference", file=sys.stderr)
        return 1 if differing else 0
    folder.mkdir(parents=True, exist_ok=True)
    for name in differing:
        (folder / name).write_text(written[name], encoding="utf-8")
        print(f"wrote {folder / name}")
    return 0


def read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
