"""The examples of docs/operators.md run as they stand there, one behind the other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
ON_A_GPU = "# on a GPU"


def examples() -> list[str]:
    return re.findall(
        r"^```python\n(.*?)^```", (ROOT / "docs" / "operators.md").read_text(encoding="utf-8"), re.M | re.S
    )


def run(blocks: list[str]) -> None:
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/operators.md", "exec"), names)


def test_the_examples_run() -> None:
    torch._dynamo.reset()
    blocks = [block for block in examples() if not block.startswith(ON_A_GPU)]
    assert len(blocks) == 7
    run(blocks)


@pytest.mark.gpu
def test_the_examples_run_on_a_device() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    torch._dynamo.reset()
    run(examples())
