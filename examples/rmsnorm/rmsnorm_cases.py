"""Cases, inputs, call and reference of rmsnorm: what `sparkctl test` and `sparkctl bench` read."""

import torch


def cases(grid):
    """A case is a dict of plain values; `grid` is "quick", "full" or "device"."""
    shapes = [(1, 1), (3, 31), (2, 256), (5, 1000), (1, 4096)]
    if grid != "quick":
        shapes += [(17, 2048), (4, 8191)]
    if grid == "device":
        shapes += [(4096, 8192)]
    found = [{"rows": rows, "cols": cols} for rows, cols in shapes]
    return [*found, {"rows": 2, "cols": 300, "zero": True}]


def inputs(kernel, *, rows, cols, zero=False):
    """The arguments of run() and reference() by name; the random numbers are seeded by the case."""
    x = torch.randn(rows, cols) * (0 if zero else 3)
    weight = torch.randn(cols)
    return {
        "x": x.to(kernel.dtype).to(kernel.device),
        "weight": weight.to(kernel.dtype).to(kernel.device),
        "eps": 1e-6,
    }


def run(kernel, *, x, weight, eps):
    """The call: the launcher reads x, weight, out and eps in this order."""
    out = kernel.empty(*x.shape)
    kernel(x, weight, out, eps)
    return out


def reference(*, x, weight, eps):
    """The same in fp64: floating tensors come so, with the values that the kernel got."""
    return x * weight / torch.sqrt(x.square().mean(-1, keepdim=True) + eps)


def bench_cases():
    """Shapes for `sparkctl bench`: activations of a decode and of a prefill."""
    return [{"rows": rows, "cols": cols} for cols in (4096, 8192) for rows in (64, 4096, 16384)]


def traffic(kernel, *, rows, cols):
    """Bytes that have to move: x once and out once, and the weight."""
    return (2 * rows * cols + cols) * kernel.dtype.itemsize


def peers():
    """Other implementations of the same call, by name."""
    return {"torch rms_norm": lambda x, weight, eps: torch.nn.functional.rms_norm(x, weight.shape, weight, eps)}
