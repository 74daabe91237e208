"""Other libraries that run the same cases on the same inputs, by name."""

from __future__ import annotations

from collections.abc import Sequence

from sparkctl.bench.peers.base import Peer, PeerArm
from sparkctl.bench.peers.sdpa import sdpa_arms
from sparkctl.errors import UsageError
from sparkctl.registry.suggest import did_you_mean

__all__ = ["PEERS", "Peer", "PeerArm", "check_peers"]

PEERS: dict[str, Peer] = {"sdpa": sdpa_arms}


def check_peers(names: Sequence[str]) -> tuple[str, ...]:
    """The names, each once; UsageError with a near name for one that is not known."""
    for name in names:
        if name not in PEERS:
            raise UsageError(f"unknown peer '{name}'", hint=did_you_mean(name, PEERS))
    return tuple(dict.fromkeys(names))
