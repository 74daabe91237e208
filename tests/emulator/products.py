"""What a matrix program's numbers should be."""

import numpy as np
from programs import Outcome

# Sixteen products and c make at most seventeen sums; a GPU's are truncated, its errors up to twice a rounding.
ROUNDINGS = 17


def widen(bits: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "bf16":
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return bits.view(np.float16).astype(np.float64)


def product(outcome: Outcome, dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """D as the program has it, D in float64, and the sum of magnitudes that a rounding error is relative to."""
    a = widen(outcome["a"], dtype).reshape(16, 16)
    b = widen(outcome["b"], dtype).reshape(8, 16).T
    c = outcome.view("c", "<f4").reshape(16, 8).astype(np.float64)
    d = outcome.view("d", "<f4").reshape(16, 8).astype(np.float64)
    return d, a @ b + c, np.abs(a) @ np.abs(b) + np.abs(c)
