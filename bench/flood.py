"""From report to acknowledgement for quiet agents, while one agent floods and while none does.

    python bench/flood.py [--quiet 200] [--rounds 5] [--seconds 10] [--blob 434]

A real Helen (twistd); quotas are without an end, or the flood would be sent away by them after 20,000 results. Quiet
agents report once a second, each at a moment of its own. The agent that floods is the C fleet (bench/floor.c) with 64
reports unacknowledged, of `--blob` bytes. Windows without it and with it take turns, so that both meet the same
machine; a figure is the median over the windows of a kind. The agents compute on the same processors as Helen, and
the flood takes what is left: the ratio has their share in it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
from pathlib import Path

import meter
from promises import Bench, Paced, connect, percentile
from throughput import identify

ENDLESS = [f"--quota={name}=9000000000/9000000000" for name in ("results", "bytes", "disk")]
SETTLE_SECONDS = 1.0  # after the flood has begun or ended
LAST_SECONDS = 5.0  # beyond the last window: a quiet agent waits for its last acknowledgement


class Flood:
    """Runs the agent that floods as a process, while a window lasts."""

    def __init__(self, bench: Bench, blob: int) -> None:
        self._floor = meter.build(bench.folder)
        identify(bench.local, bench.folder, 1)
        self._document = bench.folder / "flood.json"
        self._document.write_bytes(document_of(blob))
        self._bench, self._runs = bench, 0
        self.rates: list[float] = []

    def begin(self) -> meter.Fleet:
        self._runs += 1
        words = ["-R", "-p", self._bench.port, "-n", 1, "-w", 64, "-b", self._document, "-d", self._bench.folder]
        return meter.Fleet([str(self._floor), *map(str, [*words, "-s", f"flood-{self._runs}", "-t", 300])])


def document_of(size: int) -> bytes:
    """Return the document of the benchmarks, with an output that makes it as long as this."""
    missing = size - len(meter.DOCUMENT)
    if missing <= 0:
        return meter.DOCUMENT
    more = b', "output": "%b"}'
    return meter.DOCUMENT[:-1] + more % (b"x" * max(0, missing - len(more) + 3))


async def measure(bench: Bench, options: argparse.Namespace) -> dict[bool, list[list[float]]]:
    """Return the waits of each window, in milliseconds, without a flood and with one."""
    flood = Flood(bench, options.blob)
    senders = [Paced(f"agent-{number}") for number in range(options.quiet)]
    await connect(list(senders), bench.contexts(options.quiet), bench.port, is_idle=False)
    whole = 2 * options.rounds * (options.seconds + SETTLE_SECONDS) + LAST_SECONDS

    async def pace(number: int) -> None:
        await asyncio.sleep(number / options.quiet)
        await senders[number].pace(1.0, whole)

    pacing = asyncio.gather(*(pace(number) for number in range(options.quiet)))
    found: dict[bool, list[list[float]]] = {False: [], True: []}
    for at in range(2 * options.rounds):
        fleet = await asyncio.to_thread(flood.begin) if at % 2 else None
        await asyncio.sleep(SETTLE_SECONDS)
        before, sent = [len(sender.waits) for sender in senders], fleet and fleet.results()
        await asyncio.sleep(options.seconds)
        if fleet is not None and sent:
            done, moment = fleet.results()
            flood.rates.append((done - sent[0]) / (moment - sent[1]))
            fleet.close()
        found[fleet is not None].append([
            wait for sender, first in zip(senders, before, strict=True) for wait in sender.waits[first:]
        ])  # fmt: skip
    await pacing
    print(f"the flood: {statistics.median(flood.rates):,.0f} reports of {options.blob:,} B a second")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quiet", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--blob", type=int, default=len(meter.DOCUMENT))
    options = parser.parse_args()
    meter.allow_descriptors(4 * options.quiet)
    with tempfile.TemporaryDirectory(prefix="flood-") as name:
        bench = Bench(Path(name), *ENDLESS)
        try:
            found = asyncio.run(measure(bench, options))
        finally:
            bench.local.stop()
    middle = {}
    for is_flooded, windows in found.items():
        p50, p99 = (statistics.median(percentile(each, part) for each in windows) for part in (0.5, 0.99))
        middle[is_flooded] = p99
        count = sum(map(len, windows))
        print(f"{'with' if is_flooded else 'without'} it: {count} acks, p50 {p50:.1f} ms, p99 {p99:.1f} ms")
    print(f"p99 with the flood / without: {middle[True] / middle[False]:.2f}")
    print(json.dumps({"load": os.getloadavg(), "machine": meter.machine()}))


if __name__ == "__main__":
    main()
