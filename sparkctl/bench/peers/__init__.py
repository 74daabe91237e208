"""Other libraries that run the same cases on the same inputs, by name."""

from __future__ import annotations

from collections.abc import Sequence

from sparkctl.bench.peers.base import Peer, PeerArm
from sparkctl.bench.peers.fa3 import fa3_arms
from sparkctl.bench.peers.flashinfer import flashinfer_arms
from sparkctl.bench.peers.flex import flex_arms
from sparkctl.bench.peers.sdpa import efficient_arms, sdpa_arms
from sparkctl.errors import UsageError
from sparkctl.registry.suggest import did_you_mean

__all__ = ["ALL", "NONE", "PEERS", "Peer", "PeerArm", "check_peers"]

PEERS: dict[str, Peer] = {
    "sdpa": sdpa_arms,
    "sdpa-efficient": efficient_arms,
    "fa3": fa3_arms,
    "flashinfer": flashinfer_arms,
    "flex": flex_arms,
}
ALL, NONE = "all", "none"


def check_peers(names: Sequence[str]) -> tuple[str, ...]:
    """The names, each once, `all` standing for every one; UsageError with a near name for one that is not known."""
    if NONE in names:
        raise UsageError(f"{NONE} beside other peers", hint=f"{NONE} alone, or leave it out")
    for name in names:
        if name != ALL and name not in PEERS:
            raise UsageError(f"unknown peer '{name}'", hint=did_you_mean(name, [*PEERS, ALL, NONE]))
    return tuple(PEERS) if ALL in names else tuple(dict.fromkeys(names))
