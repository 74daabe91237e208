"""Python files with a kernel's cases: what is wrong with one is told with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkctl.errors import SparkctlError
from sparkctl.testing.own_file import load_own_file

GOOD = """\
def cases(grid):
    return [{"rows": 2, "causal": True, "wide": False, "name": "a/b c", "eps": 0.5}]
def inputs(kernel, **case): ...
def run(kernel, **inputs): ...
def reference(**inputs): ...
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "k_cases.py"
    path.write_text(text, encoding="utf-8")
    return path


def test_ids_are_made_of_what_a_case_says(tmp_path: Path) -> None:
    (case,) = load_own_file(write(tmp_path, GOOD)).cases("quick")
    assert case.id == "rows2-causal-namea_b_c-eps0.5"


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    import os

    path = write(tmp_path, GOOD)
    first = load_own_file(path)
    assert load_own_file(path) is first
    write(tmp_path, GOOD.replace('"rows": 2', '"rows": 3'))
    os.utime(path, ns=(1, 1))
    assert load_own_file(path).cases("quick")[0].id.startswith("rows3")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("def cases(grid):", "def cases(grid:", "k_cases.py:1: "),
        ("def cases(grid):", "import absent_module\ndef cases(grid):", "k_cases.py:1: ModuleNotFoundError"),
        ("def cases(grid):", "import sys\nsys.exit(0)\ndef cases(grid):", "k_cases.py:2: SystemExit: 0"),
        ("    return [", "    raise SystemExit(3)\n    return [", "k_cases.py:2: cases(): SystemExit: 3"),
        ("def reference(**inputs): ...\n", "", "k_cases.py: there is no reference()"),
        ("def cases(grid):", "def cases():", "k_cases.py: cases() takes no argument"),
        ("    return [", "    grid.no\n    return [", "k_cases.py:2: cases(): AttributeError"),
        ('return [{"rows": 2', 'return [3, {"rows": 2', "cases() gave 3, accepted is a dict by name"),
        ('"rows": 2', '"rows": [2]', "cases() gave rows=[2], accepted is a bool, int, float or str"),
        ('"eps": 0.5}]', '"eps": 0.5}] * 2', "gave rows2-causal-namea_b_c-eps0.5 twice"),
    ],
)
def test_what_is_wrong_is_told(old: str, new: str, said: str, tmp_path: Path) -> None:
    assert old in GOOD
    with pytest.raises(SparkctlError) as caught:
        load_own_file(write(tmp_path, GOOD.replace(old, new))).cases("quick")
    assert said in caught.value.message


def test_it_may_import_what_lies_beside_it_and_print(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    before = list(sys.path)
    (tmp_path / "beside_the_cases.py").write_text("ROWS = 7\n", encoding="utf-8")
    text = "from beside_the_cases import ROWS\nprint('loaded')\n" + GOOD.replace('"rows": 2', '"rows": ROWS')
    file = load_own_file(write(tmp_path, text.replace("    return [", "    print('called')\n    return [")))
    assert file.cases("quick")[0].id.startswith("rows7")
    assert sys.path == before
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "loaded\ncalled\n")


def test_a_mapping_is_no_list_of_cases(tmp_path: Path) -> None:
    text = GOOD.replace('[{"rows": 2, "causal": True, "wide": False, "name": "a/b c", "eps": 0.5}]', '{"rows": 2}')
    with pytest.raises(SparkctlError, match="gave dict, accepted is a list of dicts"):
        load_own_file(write(tmp_path, text)).cases("quick")
