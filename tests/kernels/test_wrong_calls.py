"""Calls of the operators that are wrong: a typed error names the argument, its value and what is accepted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from calls import (
    INT32,
    Row,
    combine_inputs,
    decode_inputs,
    every_second,
    fp32,
    ints,
    narrow,
    paged_inputs,
    shifted,
    shows,
    zeros,
)

from sparkctl import ops
from sparkctl.errors import SparkctlError
from sparkctl.runtime import Library

# Of decode and of paged_decode.
SHARED: tuple[Row, ...] = (
    ({"q": np.zeros((2, 1, 8, 64))}, TypeError, "q is ndarray, accepted is torch.Tensor"),
    ({"q": None}, TypeError, "q is NoneType, accepted is torch.Tensor"),
    (
        {"q": zeros(2, 8, 64)},
        ValueError,
        "q has shape [2, 8, 64], accepted is rank 4 [batch, qo_len, num_qo_heads, head_dim]",
    ),
    (
        {"q": zeros(2, 1, 8, 64, dtype=torch.float32)},
        TypeError,
        "q has dtype torch.float32, accepted are torch.bfloat16, torch.float16",
    ),
    (
        {"q": zeros(2, 1, 8, 64, dtype=torch.int16)},
        TypeError,
        "q has dtype torch.int16, accepted are torch.bfloat16, torch.float16",
    ),
    (
        {"q": zeros(2, 1, 8, 64).requires_grad_()},
        ValueError,
        "q requires grad, accepted is inference only: use torch.no_grad() or .detach()",
    ),
    ({"q": zeros(2, 1, 8, 64).to_sparse()}, TypeError, "q has layout torch.sparse_coo, accepted is torch.strided"),
    ({"q": zeros(2, 1, 8, 0)}, ValueError, "head_dim is 0, accepted is 1 or more"),
    ({"q": every_second(zeros(2, 1, 8, 128))}, ValueError, "q has last stride 2, accepted is 1"),
    (
        {"q": shifted(2, 1, 8, 64)},
        ValueError,
        "q starts 2 bytes past a multiple of 16, accepted is a multiple of 16 bytes",
    ),
    (
        {"q": narrow(2, 1, 8, 64)},
        ValueError,
        "q has stride 68 on axis 2, accepted is a multiple of 8 elements (16 bytes)",
    ),
    ({"q": zeros(2, 1, 7, 64)}, ValueError, "num_qo_heads is 7, accepted is a multiple of num_kv_heads (2)"),
    ({"causal": 1}, TypeError, "causal is 1, accepted are True and False"),
    ({"scale": "1"}, TypeError, "scale is '1', accepted is a number"),
    ({"scale": math.nan}, ValueError, "scale is nan, accepted is a finite number"),
    ({"window": -1}, ValueError, "window is -1, accepted is 0 or more, or None for no window"),
    ({"window": True}, TypeError, "window is True, accepted is a whole number or None"),
    ({"window": 1.5}, TypeError, "window is 1.5, accepted is a whole number or None"),
    ({"softcap": 0.0}, ValueError, "softcap is 0.0, accepted is more than 0, or None for no cap"),
    ({"softcap": -1.0}, ValueError, "softcap is -1.0, accepted is more than 0, or None for no cap"),
    ({"softcap": math.nan}, ValueError, "softcap is nan, accepted is a finite number"),
    ({"softcap": math.inf}, ValueError, "softcap is inf, accepted is a finite number"),
    ({"softcap": True}, TypeError, "softcap is True, accepted is a number"),
    ({"mask": [[True]]}, TypeError, "mask is list, accepted is torch.Tensor"),
    (
        {"mask": shows(20)},
        ValueError,
        "mask has shape [20], accepted is rank 2, 3 or 4: [qo_len, kv_len], [batch, 1 or qo_len, "
        "kv_len] or [batch, 1 or num_qo_heads, 1 or qo_len, kv_len]",
    ),
    (
        {"mask": shows(1, 1, 1, 1, 20)},
        ValueError,
        "mask has shape [1, 1, 1, 1, 20], accepted is rank 2, 3 or 4: [qo_len, kv_len], [batch, 1 or "
        "qo_len, kv_len] or [batch, 1 or num_qo_heads, 1 or qo_len, kv_len]",
    ),
    (
        {"mask": zeros(1, 20, dtype=torch.float32)},
        TypeError,
        "mask has dtype torch.float32, accepted is torch.bool (True: visible)",
    ),
    (
        {"mask": zeros(1, 20, dtype=torch.uint8)},
        TypeError,
        "mask has dtype torch.uint8, accepted is torch.bool (True: visible)",
    ),
    ({"mask": shows(1, 20, device="meta")}, ValueError, "mask is on meta, accepted is the device of q: cpu"),
    ({"sinks": zeros(2, dtype=torch.float32)}, ValueError, "sinks has shape [2], accepted is [8] [num_qo_heads]"),
    ({"sinks": zeros(1, 8, dtype=torch.float32)}, ValueError, "sinks has shape [1, 8], accepted is [8] [num_qo_heads]"),
    ({"sinks": zeros(8)}, TypeError, "sinks has dtype torch.bfloat16, accepted is torch.float32"),
    (
        {"sinks": zeros(8, dtype=torch.float32, device="meta")},
        ValueError,
        "sinks is on meta, accepted is the device of q: cpu",
    ),
    (
        {"sinks": every_second(zeros(16, dtype=torch.float32))},
        ValueError,
        "sinks is not contiguous, accepted is a contiguous tensor",
    ),
    ({"sinks": [0.0] * 8}, TypeError, "sinks is list, accepted is torch.Tensor"),
    ({"num_splits": 0}, ValueError, "num_splits is 0, accepted is 1 to 65535"),
    ({"num_splits": 65536}, ValueError, "num_splits is 65536, accepted is 1 to 65535"),
    ({"num_splits": True}, TypeError, "num_splits is True, accepted is a whole number or None"),
    ({"max_kv_len": 1.0}, TypeError, "max_kv_len is 1.0, accepted is a whole number or None"),
    ({"out": np.zeros((2, 1, 8, 64))}, TypeError, "out is ndarray, accepted is torch.Tensor"),
    ({"out": zeros(2, 1, 4, 64)}, ValueError, "out has shape [2, 1, 4, 64], accepted is [2, 1, 8, 64] as q"),
    (
        {"out": zeros(2, 1, 8, 64, dtype=torch.float16)},
        TypeError,
        "out has dtype torch.float16, accepted is that of q: torch.bfloat16",
    ),
    ({"out": zeros(2, 1, 8, 64, device="meta")}, ValueError, "out is on meta, accepted is the device of q: cpu"),
    (
        {"out": zeros(1, 1, 1, 64).expand(2, 1, 8, 64)},
        ValueError,
        "out has elements that share memory, accepted is a tensor without overlap",
    ),
    (
        {"out": shifted(2, 1, 8, 64)},
        ValueError,
        "out starts 2 bytes past a multiple of 16, accepted is a multiple of 16 bytes",
    ),
    (
        {"out": zeros(2, 1, 8, 64).requires_grad_()},
        ValueError,
        "out requires grad, accepted is inference only: use torch.no_grad() or .detach()",
    ),
    ({"workspace": (1, 2, 3)}, TypeError, "workspace is tuple, accepted is sparkctl.ops.Workspace"),
    (
        {"workspace": ops.allocate_workspace(zeros(3, 1, 8, 64), 2)},
        ValueError,
        "part_acc has shape [3, 1, 8, 2, 64], accepted is [2, 1, 8, 2, 64]",
    ),
    (
        {"workspace": ops.allocate_workspace(zeros(2, 1, 8, 64, device="meta"), 2)},
        ValueError,
        "workspace is on meta, accepted is the device of q: cpu",
    ),
    (
        {"workspace": ops.allocate_workspace(zeros(2, 1, 8, 64), 2), "num_splits": 3},
        ValueError,
        "num_splits is 3, accepted is the workspace's: 2",
    ),
    ({"backend": "gpu"}, ValueError, "backend is 'gpu', accepted are auto, cuda, emulator, torch"),
    ({"backend": "cuda"}, ValueError, "q is on cpu, which backend 'cuda' does not accept"),
)

DECODE: tuple[Row, ...] = (
    ({"q": zeros(2, 1, 8, 64, device="meta")}, ValueError, "k is on cpu, accepted is the device of q: meta"),
    (
        {"q": zeros(2, 17, 8, 64)},
        ValueError,
        "no variant accepts group 4, qo_len 17, dtype bf16; accepted are dtype bf16, head_dim 64, "
        "group 1 to 64, qo_len 1 to 16, kv_len 0 to 1073741824",
    ),
    (
        {"q": zeros(2, 1, 130, 64)},
        ValueError,
        "no variant accepts group 65, qo_len 1, dtype bf16; accepted are dtype bf16, head_dim 64, "
        "group 1 to 64, qo_len 1 to 16, kv_len 0 to 1073741824",
    ),
    (
        {"q": zeros(2, 1, 8, 80), "k": zeros(2, 20, 2, 80), "v": zeros(2, 20, 2, 80)},
        ValueError,
        "head_dim is 80, accepted are 64",
    ),
    ({"k": np.zeros((2, 20, 2, 64))}, TypeError, "k is ndarray, accepted is torch.Tensor"),
    (
        {"k": zeros(2, 20, 64)},
        ValueError,
        "k has shape [2, 20, 64], accepted is rank 4 [batch, kv_len, num_kv_heads, head_dim]",
    ),
    (
        {"k": zeros(1, 20, 2, 64)},
        ValueError,
        "k has shape [1, 20, 2, 64], accepted is [2, 20, 2, 64] [batch, kv_len, num_kv_heads, head_dim]",
    ),
    (
        {"k": zeros(2, 20, 2, 32)},
        ValueError,
        "k has shape [2, 20, 2, 32], accepted is [2, 20, 2, 64] [batch, kv_len, num_kv_heads, head_dim]",
    ),
    (
        {"k": zeros(2, 20, 2, 64, dtype=torch.float16)},
        TypeError,
        "k has dtype torch.float16, accepted is that of q: torch.bfloat16",
    ),
    ({"k": zeros(2, 20, 2, 64, device="meta")}, ValueError, "k is on meta, accepted is the device of q: cpu"),
    ({"k": every_second(zeros(2, 20, 2, 128))}, ValueError, "k has last stride 2, accepted is 1"),
    (
        {"k": zeros(2, 20, 0, 64), "v": zeros(2, 20, 0, 64)},
        ValueError,
        "num_qo_heads is 8, accepted is a multiple of num_kv_heads (0)",
    ),
    (
        {"v": zeros(2, 19, 2, 64)},
        ValueError,
        "v has shape [2, 19, 2, 64], accepted is [2, 20, 2, 64] [batch, kv_len, num_kv_heads, head_dim], as k",
    ),
    (
        {"v": zeros(2, 20, 1, 64)},
        ValueError,
        "v has shape [2, 20, 1, 64], accepted is [2, 20, 2, 64] [batch, kv_len, num_kv_heads, head_dim], as k",
    ),
    (
        {"v": zeros(2, 20, 2, 64, dtype=torch.float32)},
        TypeError,
        "v has dtype torch.float32, accepted is that of q: torch.bfloat16",
    ),
    (
        {"v": zeros(2, 20, 2, 64).requires_grad_()},
        ValueError,
        "v requires grad, accepted is inference only: use torch.no_grad() or .detach()",
    ),
    (
        {"v": narrow(2, 20, 2, 64)},
        ValueError,
        "v has stride 68 on axis 2, accepted is a multiple of 8 elements (16 bytes)",
    ),
    (
        {"v": shifted(2, 20, 2, 64)},
        ValueError,
        "v starts 2 bytes past a multiple of 16, accepted is a multiple of 16 bytes",
    ),
    ({"kv_lens": [20, 7]}, TypeError, "kv_lens is list, accepted is torch.Tensor"),
    ({"kv_lens": torch.tensor([20, 7])}, TypeError, "kv_lens has dtype torch.int64, accepted is torch.int32"),
    ({"kv_lens": ints(1, 2, 3)}, ValueError, "kv_lens has shape [3], accepted is [2] [batch]"),
    ({"kv_lens": ints(21, 1)}, ValueError, "kv_lens is [21, 1], accepted is 0 to 20, the length of k"),
    ({"kv_lens": ints(-1, 1)}, ValueError, "kv_lens is [-1, 1], accepted is 0 to 20, the length of k"),
    (
        {"kv_lens": every_second(ints(1, 2, 3, 4))},
        ValueError,
        "kv_lens is not contiguous, accepted is a contiguous tensor",
    ),
    (
        {"kv_lens": zeros(2, dtype=INT32, device="meta")},
        ValueError,
        "kv_lens is on meta, accepted is the device of q: cpu",
    ),
    ({"max_kv_len": 21}, ValueError, "max_kv_len is 21, accepted is 0 to 20, the length of k"),
    ({"total_kv_len": -1}, ValueError, "total_kv_len is -1, accepted is 0 to 40, 2 sequences of 20 keys"),
    (
        {"max_kv_len": 9, "total_kv_len": 99},
        ValueError,
        "total_kv_len is 99, accepted is 0 to 18, 2 sequences of 9 keys",
    ),
    (
        {"mask": shows(1, 7)},
        ValueError,
        "mask has shape [1, 7], accepted is [1, 20]: [qo_len, kv_len], [batch, 1 or qo_len, kv_len] "
        "or [batch, 1 or num_qo_heads, 1 or qo_len, kv_len]",
    ),
    (
        {"mask": shows(3, 1, 20)},
        ValueError,
        "mask has shape [3, 1, 20], accepted is [2, 1, 20]: [qo_len, kv_len], [batch, 1 or qo_len, "
        "kv_len] or [batch, 1 or num_qo_heads, 1 or qo_len, kv_len]",
    ),
    (
        {"mask": shows(2, 2, 1, 20)},
        ValueError,
        "mask has shape [2, 2, 1, 20], accepted is [2, 1 or 8, 1, 20]: [qo_len, kv_len], [batch, 1 "
        "or qo_len, kv_len] or [batch, 1 or num_qo_heads, 1 or qo_len, kv_len]",
    ),
    ({"mask": every_second(shows(1, 40))}, ValueError, "mask has last stride 2, accepted is 1"),
    (
        {"kernel": "zz"},
        ValueError,
        "kernel is 'zz', accepted are auto, attn_decode_split_kv_mma, fa_split_gqa, attn_decode_split_kv",
    ),
)

PAGED: tuple[Row, ...] = (
    ({"q": zeros(2, 1, 8, 64, device="meta")}, ValueError, "k_pages is on cpu, accepted is the device of q: meta"),
    (
        {"q": zeros(2, 17, 8, 64)},
        ValueError,
        "no variant accepts group 4, qo_len 17, dtype bf16; accepted are dtype bf16, head_dim 64, "
        "group 1 to 64, qo_len 1 to 16, kv_len 0 to 1073741824, page_size 1 to 1048576",
    ),
    (
        {"q": zeros(2, 1, 130, 64)},
        ValueError,
        "no variant accepts group 65, qo_len 1, dtype bf16; accepted are dtype bf16, head_dim 64, "
        "group 1 to 64, qo_len 1 to 16, kv_len 0 to 1073741824, page_size 1 to 1048576",
    ),
    (
        {"q": zeros(2, 1, 8, 80), "k_pages": zeros(5, 8, 2, 80), "v_pages": zeros(5, 8, 2, 80)},
        ValueError,
        "head_dim is 80, accepted are 64",
    ),
    ({"k_pages": np.zeros((5, 8, 2, 64))}, TypeError, "k_pages is ndarray, accepted is torch.Tensor"),
    (
        {"k_pages": zeros(5, 16, 64)},
        ValueError,
        "k_pages has shape [5, 16, 64], accepted is rank 4 [num_pages, page_size, num_kv_heads, head_dim]",
    ),
    (
        {"k_pages": zeros(5, 8, 2, 32)},
        ValueError,
        "k_pages has shape [5, 8, 2, 32], accepted is [5, 8, 2, 64] [num_pages, page_size, num_kv_heads, head_dim]",
    ),
    (
        {"k_pages": zeros(5, 8, 2, 64, dtype=torch.float16)},
        TypeError,
        "k_pages has dtype torch.float16, accepted is that of q: torch.bfloat16",
    ),
    (
        {"k_pages": zeros(5, 8, 3, 64), "v_pages": zeros(5, 8, 3, 64)},
        ValueError,
        "num_qo_heads is 8, accepted is a multiple of num_kv_heads (3)",
    ),
    (
        {"k_pages": zeros(5, 0, 2, 64), "v_pages": zeros(5, 0, 2, 64)},
        ValueError,
        "page_size is 0, accepted is 1 or more",
    ),
    (
        {"k_pages": shifted(5, 8, 2, 64)},
        ValueError,
        "k_pages starts 2 bytes past a multiple of 16, accepted is a multiple of 16 bytes",
    ),
    (
        {"v_pages": zeros(5, 16, 2, 64)},
        ValueError,
        "v_pages has shape [5, 16, 2, 64], accepted is [5, 8, 2, 64] [num_pages, page_size, "
        "num_kv_heads, head_dim], as k_pages",
    ),
    (
        {"v_pages": zeros(4, 8, 2, 64)},
        ValueError,
        "v_pages has shape [4, 8, 2, 64], accepted is [5, 8, 2, 64] [num_pages, page_size, "
        "num_kv_heads, head_dim], as k_pages",
    ),
    (
        {"v_pages": zeros(5, 8, 2, 64, device="meta")},
        ValueError,
        "v_pages is on meta, accepted is the device of q: cpu",
    ),
    (
        {"v_pages": narrow(5, 8, 2, 64)},
        ValueError,
        "v_pages has stride 68 on axis 2, accepted is a multiple of 8 elements (16 bytes)",
    ),
    ({"page_table": [[4, 1, 3], [2, 0, 0]]}, TypeError, "page_table is list, accepted is torch.Tensor"),
    (
        {"page_table": zeros(2, 3, dtype=torch.int64)},
        TypeError,
        "page_table has dtype torch.int64, accepted is torch.int32",
    ),
    (
        {"page_table": zeros(6, dtype=INT32)},
        ValueError,
        "page_table has shape [6], accepted is rank 2 [batch, max_pages]",
    ),
    (
        {"page_table": zeros(3, 3, dtype=INT32)},
        ValueError,
        "page_table has shape [3, 3], accepted is [2, 3] [batch, max_pages]",
    ),
    (
        {"page_table": zeros(2, 2, dtype=INT32)},
        ValueError,
        "kv_lens is [20, 7], accepted is 0 to 16, the keys that page_table has room for",
    ),
    (
        {"page_table": zeros(2, 3, dtype=INT32, device="meta")},
        ValueError,
        "page_table is on meta, accepted is the device of q: cpu",
    ),
    ({"page_table": every_second(zeros(2, 6, dtype=INT32))}, ValueError, "page_table has last stride 2, accepted is 1"),
    (
        {"page_table": ints(4, 1, 5, 2, 0, 0).view(2, 3)},
        ValueError,
        "page_table[0, 2] is 5, accepted is 0 to 4, the pages of k_pages",
    ),
    (
        {"page_table": ints(4, 1, 3, -1, 0, 0).view(2, 3)},
        ValueError,
        "page_table[1, 0] is -1, accepted is 0 to 4, the pages of k_pages",
    ),
    ({"kv_lens": None}, TypeError, "kv_lens is NoneType, accepted is torch.Tensor"),
    ({"kv_lens": torch.tensor([20, 7])}, TypeError, "kv_lens has dtype torch.int64, accepted is torch.int32"),
    ({"kv_lens": ints(20)}, ValueError, "kv_lens has shape [1], accepted is [2] [batch]"),
    (
        {"kv_lens": ints(25, 1)},
        ValueError,
        "kv_lens is [25, 1], accepted is 0 to 24, the keys that page_table has room for",
    ),
    (
        {"kv_lens": ints(-1, 1)},
        ValueError,
        "kv_lens is [-1, 1], accepted is 0 to 24, the keys that page_table has room for",
    ),
    (
        {"kv_lens": every_second(ints(1, 2, 3, 4))},
        ValueError,
        "kv_lens is not contiguous, accepted is a contiguous tensor",
    ),
    (
        {"kv_lens": zeros(2, dtype=INT32, device="meta")},
        ValueError,
        "kv_lens is on meta, accepted is the device of q: cpu",
    ),
    ({"max_kv_len": 25}, ValueError, "max_kv_len is 25, accepted is 0 to 24, the keys that page_table has room for"),
    (
        {"mask": shows(1, 20)},
        ValueError,
        "mask has shape [1, 20], accepted is [1, 24]: [qo_len, kv_len], [batch, 1 or qo_len, kv_len] "
        "or [batch, 1 or num_qo_heads, 1 or qo_len, kv_len]",
    ),
    (
        {"mask": shows(2, 8, 2, 24)},
        ValueError,
        "mask has shape [2, 8, 2, 24], accepted is [2, 1 or 8, 1, 24]: [qo_len, kv_len], [batch, 1 "
        "or qo_len, kv_len] or [batch, 1 or num_qo_heads, 1 or qo_len, kv_len]",
    ),
    ({"mask": every_second(shows(1, 48))}, ValueError, "mask has last stride 2, accepted is 1"),
    (
        {"kernel": "attn_decode_split_kv"},
        ValueError,
        "kernel is 'attn_decode_split_kv', accepted are auto, attn_paged_decode_split_kv_mma, "
        "fa_split_gqa, attn_paged_decode_split_kv",
    ),
)

COMBINE: tuple[Row, ...] = (
    ({"part_acc": np.zeros((2, 1, 8, 3, 64))}, TypeError, "part_acc is ndarray, accepted is torch.Tensor"),
    ({"part_acc": None}, TypeError, "part_acc is NoneType, accepted is torch.Tensor"),
    (
        {"part_acc": fp32(2, 8, 3, 64)},
        ValueError,
        "part_acc has shape [2, 8, 3, 64], accepted is rank 5 [batch, qo_len, num_qo_heads, num_splits, head_dim]",
    ),
    ({"part_acc": zeros(2, 1, 8, 3, 64)}, TypeError, "part_acc has dtype torch.bfloat16, accepted is torch.float32"),
    (
        {"part_acc": fp32(2, 1, 8, 3, 80)},
        SparkctlError,
        "no attn_combine is built for dtype bf16 and head_dim 80; built for bf16 are 64 (sparkctl "
        "build attn_combine --arch sm_90 --backend emulator)",
    ),
    (
        {"part_acc": fp32(2, 1, 8, 3, 64, device="meta")},
        ValueError,
        "part_max is on cpu, accepted is the device of part_acc: meta",
    ),
    (
        {"part_acc": fp32(2, 1, 8, 3, 64).requires_grad_()},
        ValueError,
        "part_acc requires grad, accepted is inference only: use torch.no_grad() or .detach()",
    ),
    (
        {"part_acc": fp32(2, 1, 8, 3, 64).to_sparse()},
        TypeError,
        "part_acc has layout torch.sparse_coo, accepted is torch.strided",
    ),
    (
        {"part_acc": every_second(fp32(2, 1, 8, 3, 128))},
        ValueError,
        "part_acc is not contiguous, accepted is a contiguous tensor",
    ),
    (
        {"part_acc": fp32(2 * 8 * 3 * 64 + 1)[1:].view(2, 1, 8, 3, 64)},
        ValueError,
        "part_acc starts 4 bytes past a multiple of 16, accepted is a multiple of 16 bytes",
    ),
    ({"part_max": [[1.0]]}, TypeError, "part_max is list, accepted is torch.Tensor"),
    (
        {"part_max": fp32(2, 8, 3)},
        ValueError,
        "part_max has shape [2, 8, 3], accepted is [2, 1, 8, 3] [batch, qo_len, num_qo_heads, num_splits]",
    ),
    (
        {"part_max": fp32(2, 1, 8, 2)},
        ValueError,
        "part_max has shape [2, 1, 8, 2], accepted is [2, 1, 8, 3] [batch, qo_len, num_qo_heads, num_splits]",
    ),
    (
        {"part_max": fp32(1, 1, 8, 3)},
        ValueError,
        "part_max has shape [1, 1, 8, 3], accepted is [2, 1, 8, 3] [batch, qo_len, num_qo_heads, num_splits]",
    ),
    (
        {"part_max": zeros(2, 1, 8, 3, dtype=torch.float64)},
        TypeError,
        "part_max has dtype torch.float64, accepted is that of part_acc: torch.float32",
    ),
    (
        {"part_max": every_second(fp32(2, 1, 8, 6))},
        ValueError,
        "part_max is not contiguous, accepted is a contiguous tensor",
    ),
    (
        {"part_max": fp32(2, 1, 8, 3, device="meta")},
        ValueError,
        "part_max is on meta, accepted is the device of part_acc: cpu",
    ),
    ({"part_sum": None}, TypeError, "part_sum is NoneType, accepted is torch.Tensor"),
    (
        {"part_sum": fp32(2, 1, 4, 3)},
        ValueError,
        "part_sum has shape [2, 1, 4, 3], accepted is [2, 1, 8, 3] [batch, qo_len, num_qo_heads, num_splits]",
    ),
    (
        {"part_sum": zeros(2, 1, 8, 3, dtype=torch.float16)},
        TypeError,
        "part_sum has dtype torch.float16, accepted is that of part_acc: torch.float32",
    ),
    (
        {"part_sum": every_second(fp32(2, 1, 8, 6))},
        ValueError,
        "part_sum is not contiguous, accepted is a contiguous tensor",
    ),
    (
        {"part_sum": fp32(2, 1, 8, 3, device="meta")},
        ValueError,
        "part_sum is on meta, accepted is the device of part_acc: cpu",
    ),
    (
        {"part_acc": fp32(2, 1, 8, 0, 64), "part_max": fp32(2, 1, 8, 0), "part_sum": fp32(2, 1, 8, 0)},
        ValueError,
        "num_splits is 0, accepted is 1 to 2147483647",
    ),
    (
        {"part_acc": fp32(2, 17, 8, 3, 64), "part_max": fp32(2, 17, 8, 3), "part_sum": fp32(2, 17, 8, 3)},
        ValueError,
        "qo_len is 17, accepted is 1 to 16",
    ),
    ({"dtype": "bf16"}, TypeError, "dtype is 'bf16', accepted are torch.bfloat16 and torch.float16"),
    ({"dtype": torch.float32}, TypeError, "dtype is torch.float32, accepted are torch.bfloat16 and torch.float16"),
    ({"sinks": fp32(2)}, ValueError, "sinks has shape [2], accepted is [8] [num_qo_heads]"),
    ({"sinks": zeros(8)}, TypeError, "sinks has dtype torch.bfloat16, accepted is torch.float32"),
    ({"sinks": every_second(fp32(16))}, ValueError, "sinks is not contiguous, accepted is a contiguous tensor"),
    ({"sinks": fp32(8, device="meta")}, ValueError, "sinks is on meta, accepted is the device of part_acc: cpu"),
    ({"sinks": [0.0] * 8}, TypeError, "sinks is list, accepted is torch.Tensor"),
    (
        {"sinks": fp32(8).requires_grad_()},
        ValueError,
        "sinks requires grad, accepted is inference only: use torch.no_grad() or .detach()",
    ),
    ({"out": np.zeros((2, 1, 8, 64))}, TypeError, "out is ndarray, accepted is torch.Tensor"),
    ({"out": zeros(2, 1, 8, 32)}, ValueError, "out has shape [2, 1, 8, 32], accepted is [2, 1, 8, 64] as the result"),
    (
        {"out": zeros(2, 1, 8, 64, dtype=torch.float16)},
        TypeError,
        "out has dtype torch.float16, accepted is that of the result: torch.bfloat16",
    ),
    (
        {"out": zeros(2, 1, 8, 64, device="meta")},
        ValueError,
        "out is on meta, accepted is the device of the others: cpu",
    ),
    (
        {"out": zeros(1, 1, 1, 64).expand(2, 1, 8, 64)},
        ValueError,
        "out has elements that share memory, accepted is a tensor without overlap",
    ),
    ({"lse": fp32(2, 8)}, ValueError, "lse has shape [2, 8], accepted is [2, 1, 8] as the result"),
    ({"lse": zeros(2, 1, 8)}, TypeError, "lse has dtype torch.bfloat16, accepted is that of the result: torch.float32"),
    ({"lse": every_second(fp32(2, 1, 16))}, ValueError, "lse is not contiguous, accepted is a contiguous tensor"),
    ({"backend": "cuda"}, ValueError, "part_acc is on cpu, which backend 'cuda' does not accept"),
    ({"backend": "torch"}, ValueError, "backend is 'torch', which accepts no kernel, variant, library or flags"),
)

CALLS = [
    *(("decode", *row) for row in SHARED + DECODE),
    *(("paged_decode", *row) for row in SHARED + PAGED),
    *(("combine", *row) for row in COMBINE),
]
INPUTS = {"decode": decode_inputs, "paged_decode": paged_inputs, "combine": combine_inputs}


@pytest.mark.parametrize(("operator", "changes", "error", "text"), CALLS)
def test_a_wrong_call_is_an_error_that_says_what_is_accepted(
    small_library: Library, operator: str, changes: dict[str, Any], error: type[Exception], text: str
) -> None:
    call = getattr(ops, operator)
    with pytest.raises(error) as caught:
        call(**{**INPUTS[operator](), "library": small_library, **changes})
    assert type(caught.value) is error
    assert str(caught.value) == text


@pytest.mark.parametrize("operator", INPUTS)
def test_the_call_that_is_made_wrong_is_right(small_library: Library, operator: str) -> None:
    out = getattr(ops, operator)(**INPUTS[operator](), library=small_library)
    assert (out[0] if operator == "combine" else out).shape == (2, 1, 8, 64)
    assert sum(name == operator for name, *_ in CALLS) >= 20


def test_plain_torch_on_a_cpu_takes_any_head_dim() -> None:
    q, k = zeros(2, 1, 8, 80), zeros(2, 20, 2, 80)
    assert ops.decode(q, k, k).shape == q.shape
