"""Takes the figures of forwards for /metrics: how far each is behind, and what became of what it sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from helen.forwards.forwarder import Forwarder
from helen.forwards.forwarding import Forwarding
from helen.web.figures.exposition import Family


def forward_families(forwarding: Forwarding) -> Iterator[Family]:
    """Yield the figures of all forwards; nothing where there are none."""

    def of_each(name: str, kind: str, help: str, value: Callable[[Forwarder], float]) -> Family:
        running = sorted(forwarding.running.items())
        return Family(name, kind, help, [("", {"forward": each}, value(made)) for each, made in running])

    if not forwarding.running:
        return
    lag = "Age of the oldest record that waits for the receiver."
    yield of_each("helen_forward_lag_seconds", "gauge", lag, Forwarder.lag)
    behind = "Records of the history that it has not gone through yet."
    yield of_each("helen_forward_behind_records", "gauge", behind, forwarding.behind)
    sent = "Values that the receiver has taken."
    yield of_each("helen_forward_sent", "counter", sent, lambda each: each.total("sent"))
    refused = "Values that the receiver will never take."
    yield of_each("helen_forward_refused", "counter", refused, lambda each: each.total("refused"))
    failed = "Tries that failed, and were followed by another one."
    yield of_each("helen_forward_failed_tries", "counter", failed, lambda each: each.counts.failed)
    lost = "Segments of the history that were gone, or could not be read, before they were sent."
    yield of_each("helen_forward_lost_segments", "counter", lost, lambda each: each.place.lost)
