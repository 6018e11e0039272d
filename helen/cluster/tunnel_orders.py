"""Signs what one Helen asks another for, a tunnel to an agent that is connected there, and judges such orders. Pure.

Brokers pass them on, and programs that may only read can ask a Helen, too. So an order carries the signature of the
network key, which Helens alone have; it names the Helen that it is for, lasts a minute, and counts once.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from attrs import asdict, fields, frozen
from cryptography.exceptions import InvalidSignature

from helen.cluster.network_key import NetworkKey

PREFIX = b"helen: a tunnel to an agent, 1\0"
LIFE = 60.0  # seconds before and after its time: clocks of Helens may differ by half of it
MOST_REMEMBERED = 10_000  # numbers of orders that have counted


class OrderRefused(Exception):
    """Tells why an order counts for nothing."""


@frozen
class TunnelOrder:
    """Describes an order. `caller` and `address`: for whom, as the Helen `asker` has it; `at`: unix seconds."""

    agent: str
    kind: str
    caller: str
    address: str
    asker: str
    to: str
    at: float
    number: str  # 32 hexadecimal digits, another one for each order

    def signed(self, key: NetworkKey) -> tuple[bytes, bytes]:
        """Return the order as JSON, and its signature."""
        text = json.dumps(asdict(self), ensure_ascii=False).encode("utf-8", "replace")
        return text, key.private.sign(PREFIX + text)


class Orders:
    """Judges orders for the Helen of an identity."""

    def __init__(self, identity: str, key: NetworkKey) -> None:
        self._identity, self._key = identity, key
        self._counted: OrderedDict[str, float] = OrderedDict()

    def read(self, parts: Sequence[bytes], now: float) -> TunnelOrder:
        """Return the order of a request's parts, which counts from now on no more. `now`: unix seconds.

        Raises OrderRefused.
        """
        if len(parts) != 2:
            raise OrderRefused("an order has two parts: itself, and its signature")
        text, signature = parts
        try:
            self._key.private.public_key().verify(signature, PREFIX + text)
        except InvalidSignature:
            raise OrderRefused("it is not signed with the key of this network") from None
        order = _order_of(json.loads(text))  # a Helen has made it
        if order.to != self._identity:
            raise OrderRefused(f"it is for {order.to}, and this is {self._identity}")
        if abs(now - order.at) > LIFE:
            raise OrderRefused(f"it is {abs(now - order.at):.0f} s away from this Helen's clock; set the clocks right")
        if order.number in self._counted:
            raise OrderRefused("it has counted before")
        self._remember(order)
        return order

    def _remember(self, order: TunnelOrder) -> None:
        """Keep its number for as long as the order could come again; when there are too many the oldest has to go."""
        self._counted[order.number] = order.at
        while len(self._counted) > MOST_REMEMBERED:
            self._counted.popitem(last=False)


def _order_of(document: dict[str, Any]) -> TunnelOrder:
    try:
        return TunnelOrder(**{each.name: document[each.name] for each in fields(TunnelOrder)})
    except KeyError as error:
        raise OrderRefused(f"it lacks {error}; is a Helen of the network an older one?") from error
