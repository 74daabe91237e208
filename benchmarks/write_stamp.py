"""Writes the commit and whether the tree is dirty beside flags.yaml, for machines that get the tree without git.

python benchmarks/write_stamp.py
"""

from sparkctl.registry import find_project
from sparkctl.workflows.stamp import write_stamp

if __name__ == "__main__":
    path = write_stamp(find_project())
    print(path.read_text(encoding="utf-8"), end="")
