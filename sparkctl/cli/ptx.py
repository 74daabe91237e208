"""`sparkctl ptx`: the PTX of a variant, and its instruction mix."""

from __future__ import annotations

import typer

from sparkctl.cli.options import Archs, Dtype, HeadDim, Json, Kernels, Profile, Sets, Where, cli_context
from sparkctl.cli.sass_show import ByLine, Listing, Vs, show_code

HELP = """The PTX of variants: the instruction mix, the listing, the count of each source line.

nvcc writes it by the very command that compiles the variant, with -ptx in place of -c. Needs no GPU.

\b
Examples:
  sparkctl ptx attn_decode_split_kv_mma.bf16.d128      one: the whole mix
  sparkctl ptx attn_decode_split_kv_mma --dtype bf16   a row a variant
  sparkctl ptx attn_combine.bf16.d64 --listing
  sparkctl ptx attn_combine.bf16.d64 --listing --profile lineinfo
  sparkctl ptx attn_combine.bf16.d64 --by-line --profile lineinfo
  sparkctl ptx attn_combine --vs HEAD~1                     what a change did
  sparkctl ptx attn_combine.bf16.d64 --listing --vs main    as a diff
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("ptx", help=HELP)(ptx)


def ptx(
    context: typer.Context,
    kernels: Kernels = None,
    arch: Archs = None,
    profile: Profile = "release",
    sets: Sets = None,
    where: Where = None,
    head_dim: HeadDim = None,
    dtype: Dtype = None,
    listing: Listing = False,
    by_line: ByLine = False,
    vs: Vs = None,
    json: Json = False,
) -> None:
    """Read the options; the rest is the same for SASS."""
    show_code(
        cli_context(context),
        "ptx",
        kernels or (),
        arch=arch,
        profile=profile,
        sets=sets or (),
        where=(where, head_dim, dtype),
        listing=listing,
        by_line=by_line,
        vs=vs,
        json=json,
    )
