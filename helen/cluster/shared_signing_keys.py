"""Shares the roots that agents pin and the keys that Helens sign with, so that agents can move between Helens.

    {"roots": [ENVELOPE, ...], "sealed": {...}, "pinned": true}

`sealed` holds private keys, for Helens only (network_key.py): the online key, and signing.key where Helen has it. Keys
that lie elsewhere stay there. A longer chain of roots that begins as ours does is followed. Another chain altogether is
taken by a Helen if no agent has pinned its own; between two that both have agents an operator has to decide.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from helen.cluster.network_key import NetworkKey, NotSealed
from helen.cluster.shared_part import NotYet
from helen.library.keyring import KeyRing

ABOUT = "the signing keys"


class SigningKeysPart:
    """Follows longer chains of roots. `has_agents()`: an agent has pinned ours; `taken()` is called after a change."""

    names = ("keys",)
    in_memory = False

    def __init__(
        self, ring: KeyRing, key: NetworkKey, has_agents: Callable[[], bool], taken: Callable[[], None]
    ) -> None:
        self._ring, self._key, self._has_agents, self._taken = ring, key, has_agents, taken

    def wanted(self, name: str, value: Any) -> Any:
        """Return our chain if it goes further than the network's; any other was adopted, or adopt has refused it."""
        chain = [envelope.decode() for envelope in self._ring.chain]
        if not chain:
            return None
        pinned = self._has_agents() or bool(value and value["pinned"])
        if value is None:
            return self._document(chain, pinned)
        said = value["roots"]
        is_further = len(chain) > len(said) and chain[: len(said)] == said
        is_ours_alone = chain[0] != said[0] and self._has_agents() and not value["pinned"]
        is_news = chain == said and pinned and not value["pinned"]
        return self._document(chain, pinned) if is_further or is_ours_alone or is_news else None

    def _document(self, chain: list[str], pinned: bool) -> dict[str, Any]:
        private = {
            "online": self._ring.online.private_bytes_raw().hex(),
            "signing": [key.private_bytes_raw().hex() for key in self._ring.held_private],
        }
        return {"roots": chain, "sealed": self._key.seal(json.dumps(private).encode(), ABOUT), "pinned": pinned}

    async def adopt(self, name: str, value: Any) -> None:
        """Follow the network's chain of roots and take its keys.

        Raises NotYet if agents have pinned another chain, or the keys are sealed with another network key.
        """
        chain, ours = [root.encode() for root in value["roots"]], list(self._ring.chain)
        if chain == ours or (len(chain) < len(ours) and ours[: len(chain)] == chain):
            return
        if ours and chain[0] != ours[0] and self._has_agents():
            if not value["pinned"]:
                return  # no agent holds theirs: they take ours
            raise NotYet(
                "agents of this Helen have pinned other keys than those of the network. Move its agents to another"
                " Helen and enrol them anew there, or give all of them new tokens here after moving roots.json,"
                " online.key and signing.key out of its state directory"
            )
        try:
            private = json.loads(self._key.unseal(value["sealed"], ABOUT))
        except NotSealed as error:
            raise NotYet(str(error)) from error
        signing = [Ed25519PrivateKey.from_private_bytes(bytes.fromhex(each)) for each in private["signing"]]
        online = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(private["online"]))
        await self._ring.adopt(tuple(chain), online, signing[0] if signing else None)
        self._taken()
