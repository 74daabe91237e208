"""The scripts that write the documentation, and the helpers beside the tests, can be imported by name."""

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parents[1] / "docs" / "tools")]
