"""Says what a large fleet's lake comes to in 400 days: measures the pipeline's real pieces, then simulates with them.

    python bench/lake_years.py [--agents 10000] [--checks 50] [--seconds 60] [--days 400] [--cores 8] [--memory 8]
                                [--back 0.02] [--outage 8] [--made-anew]

One run takes two to four minutes where nothing else is at work, a quarter of an hour at a load of ten. With `--costs`
one that was ended goes on with what it lacks. It takes in some batches as large as those of that fleet, of as many
checks; a day of a thousandth of it, which is followed by hours and days, put together, and reported on; and logs of
many files (bench/lake_costs.py). The table says what the lake is at the end of some days, and what they have cost;
below it stands what each limit comes to, against cores, memory (GB), disk (TB) and patience (seconds for a report) as
the options have them. bench/lake_growth.py says how it is simulated and what is left out.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import tempfile
from pathlib import Path

from attrs import asdict, evolve
from lake_costs import measure
from lake_growth import simulate
from lake_limits import Room, first_limit, limits_of
from lake_settings import Fleet, Policy
from lake_tables import show_days, show_limits

SHOWN = (1, 7, 30, 90, 400)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    fleet, room = Fleet(), Room()
    for name, kind in (("agents", int), ("checks", int), ("seconds", float), ("changes", float), ("outage", float)):
        parser.add_argument(f"--{name}", type=kind, default=getattr(fleet, name))
    parser.add_argument("--back", type=float, default=0.02, help="share of the agents that come back on a day")
    parser.add_argument("--made-anew", action="store_true", help="have no late rows added: each is put into its bucket")
    parser.add_argument("--days", type=int, default=400)
    parser.add_argument("--cores", type=int, default=room.cores)
    parser.add_argument("--memory", type=float, default=room.memory / 1e9, help="GB that the driver may have")
    parser.add_argument("--disk", type=float, default=room.disk / 1e12, help="TB")
    parser.add_argument("--patience", type=float, default=room.report_seconds, help="seconds for a report")
    parser.add_argument("--costs", type=Path, help="keep the costs in this file, and measure what it lacks")
    options = parser.parse_args()
    fleet = Fleet(
        options.agents, options.checks, options.seconds, options.changes, options.back, options.outage
    )  # fmt: skip
    room = Room(options.cores, options.memory * 1e9, options.disk * 1e12, options.patience)
    policy, load = Policy.of_code(), os.getloadavg()[0]
    policy = evolve(policy, add_from=math.inf) if options.made_anew else policy
    folder = Path(tempfile.mkdtemp(prefix="lake-years-"))
    try:
        costs = measure(fleet, policy, folder, options.costs)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"load {load:.1f} before, {os.getloadavg()[0]:.1f} after")
    print(json.dumps(asdict(costs), indent=1))
    days = simulate(fleet, policy, costs, options.days, options.cores)
    show_days([days[number - 1] for number in SHOWN if number <= options.days])
    show_limits(limits_of(days[-1], policy, room), first_limit(days, policy, room))


if __name__ == "__main__":
    main()
