"""A K/V cache in pages: what paged_decode reads, for the layers of one model and one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkctl.ops import checks

if TYPE_CHECKING:
    import torch


class PagedCache:
    """Pages of every layer, one page table for all of them, and lengths that grow together.

    `extend(n)` makes room for n more keys of every sequence and takes the pages for them; `write(layer, k, v)` stores
    those keys of one layer. Pages are taken in the order in which they are needed, so a sequence's pages lie anywhere.
    """

    def __init__(
        self,
        *,
        num_layers: int,
        batch: int,
        max_kv_len: int,
        num_kv_heads: int,
        head_dim: int,
        page_size: int = 16,
        dtype: torch.dtype | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        """Room for max_kv_len keys of each sequence, rounded up to whole pages; dtype defaults to bf16.

        Raises TypeError and ValueError naming the argument.
        """
        import torch

        sizes = {"num_layers": num_layers, "batch": batch, "max_kv_len": max_kv_len, "page_size": page_size}
        for name, size in {**sizes, "num_kv_heads": num_kv_heads, "head_dim": head_dim}.items():
            checks.check_count(name, size)
        if dtype not in (None, torch.bfloat16, torch.float16):
            raise TypeError(f"dtype is {dtype!r}, accepted are torch.bfloat16 and torch.float16, or None for the first")
        try:
            device = torch.device(device)
        except (RuntimeError, TypeError) as error:
            raise ValueError(f"device is {device!r}, accepted is a device of torch, as in 'cpu' or 'cuda:0'") from error
        self.page_size = page_size
        self.kv_len = 0
        max_pages = -(-max_kv_len // page_size)
        shape = (batch * max_pages, page_size, num_kv_heads, head_dim)
        kept = dtype or torch.bfloat16
        self.k_pages = [torch.zeros(shape, dtype=kept, device=device) for _ in range(num_layers)]
        self.v_pages = [torch.zeros(shape, dtype=kept, device=device) for _ in range(num_layers)]
        self.page_table = torch.zeros((batch, max_pages), dtype=torch.int32, device=device)
        self.kv_lens = torch.zeros(batch, dtype=torch.int32, device=device)
        self._slots = torch.zeros((batch, 0), dtype=torch.int64, device=device)  # of the last extension, [batch, n]

    @property
    def capacity(self) -> int:
        """Keys that every sequence has room for."""
        return int(self.page_table.shape[1]) * self.page_size

    @property
    def positions(self) -> torch.Tensor:
        """Positions of the last extension's keys [batch, n], as models take them: position_ids."""
        import torch

        batch, count = self._slots.shape
        return torch.arange(self.kv_len - count, self.kv_len, device=self._slots.device).expand(batch, count)

    def extend(self, count: int) -> None:
        """Make room for `count` more keys of every sequence. TypeError for no whole number, ValueError where they do
        not fit."""
        import torch

        checks.check_count("count", count)
        if count > self.capacity - self.kv_len:
            raise ValueError(f"count is {count}, accepted is 1 to {self.capacity - self.kv_len}, the room that is left")
        batch, device = len(self.kv_lens), self.kv_lens.device
        used, needed = (-(-length // self.page_size) for length in (self.kv_len, self.kv_len + count))
        if needed > used:
            fresh = torch.arange(used * batch, needed * batch, dtype=torch.int32, device=device)
            self.page_table[:, used:needed] = fresh.view(needed - used, batch).T
        keys = torch.arange(self.kv_len, self.kv_len + count, device=device)
        self._slots = self.page_table[:, keys // self.page_size].long() * self.page_size + keys % self.page_size
        self.kv_len += count
        self.kv_lens.fill_(self.kv_len)

    def write(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> None:
        """Store the last extension's keys of a layer, k and v [batch, count, num_kv_heads, head_dim].

        Raises TypeError and ValueError naming the argument.
        """
        checks.check_count("layer", layer, least=0)
        if layer >= len(self.k_pages):
            raise ValueError(f"layer is {layer}, accepted is 0 to {len(self.k_pages) - 1}")
        for name, pages, values in (("k", self.k_pages[layer], k), ("v", self.v_pages[layer], v)):
            checks.check_tensor(name, values)
            checks.check_same(name, values, "the cache", pages)
            checks.check_shape(name, values, (*self._slots.shape, *pages.shape[2:]), "[batch, count, heads, head_dim]")
            pages.flatten(0, 1)[self._slots] = values
