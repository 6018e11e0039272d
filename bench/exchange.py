"""CPU of one check and its result, Helen beside the C floor: 1,000 agents with one check each, or one agent with 64.

    python bench/exchange.py --conns 1000 --window 1 --reps 5 [--server NAME=COMMAND]...

Runs of all servers are interleaved. Each is measured over `--results` results, once `--warm` have been answered, so
that caches are full, the first segment is sealed, and sealing is in what is measured. The agents (bench/floor.c, one
process) answer with the document of a real agent, started now. A COMMAND is any server that speaks the protocol and
keeps {window} checks outstanding on each of {conns} connections once all have said hello; {port}, {crt} and {key} are
filled in as well. So two commits are compared by naming the exchange_server.py of another tree.
"""

from __future__ import annotations

import argparse
import shlex
import socket
import sys
import tempfile
from pathlib import Path

import meter

FLOOR = "C floor"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def run(command: str, floor: Path, options: argparse.Namespace) -> dict[str, float]:
    """Start a server and the fleet, measure, end both."""
    folder, port = floor.parent, free_port()
    crt, key = folder / "floor.crt", folder / "floor.key"
    filled = command.format(port=port, crt=crt, key=key, conns=options.conns, window=options.window)
    words = ["-p", port, "-n", options.conns, "-b", folder / "document.json", "-t", options.seconds]
    with meter.running(shlex.split(filled), port) as server:
        held = meter.rss_of(server.pid)
        fleet = meter.Fleet([str(floor), *map(str, words)])
        try:
            kib = (meter.rss_of(server.pid) - held) / 1024 / options.conns
            return meter.measure(server.pid, fleet, options.warm, options.results) | {"kib": kib}
        finally:
            fleet.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conns", type=int, default=1000)
    parser.add_argument("--window", type=int, default=1)
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--warm", type=int, default=25_000, help="results before measuring begins")
    parser.add_argument("--results", type=int, default=50_000, help="results that are measured")
    parser.add_argument("--seconds", type=float, default=400, help="after which a fleet gives up")
    parser.add_argument("--server", action="append", default=[], metavar="NAME=COMMAND")
    options = parser.parse_args()
    meter.allow_descriptors(4 * options.conns)
    with tempfile.TemporaryDirectory(prefix="exchange-") as name:
        floor = meter.build(Path(name))
        meter.make_certificate(Path(name))
        told = "--port {port} --crt {crt} --key {key} --conns {conns} --window {window}"
        document = Path(name) / "document.json"
        cases = {FLOOR: f"{floor} -L -p {{port}} -n {{conns}} -w {{window}} -b {document} -t 600 -c {{crt}} -k {{key}}"}
        helen = f"{sys.executable} {meter.HERE / 'exchange_server.py'} {told} --seconds 600"
        cases["Helen"] = helen
        cases |= dict(each.split("=", 1) for each in options.server)
        runs: dict[str, list[dict[str, float]]] = {each: [] for each in cases}
        for _ in range(options.reps):
            for each, command in cases.items():
                runs[each].append(run(command, floor, options))
    print(f"{options.conns} connections, {options.window} outstanding each, {len(meter.DOCUMENT)} B documents,")
    print(f"{options.reps} interleaved runs; {meter.machine()}; Python {meter.interpreter_of(sys.executable)}\n")
    meter.show(runs, FLOOR)


if __name__ == "__main__":
    main()
