"""Set up Python itself for a Helen that has started: its threads and its garbage collector."""

from __future__ import annotations

import gc
import sys

from helen import heap_memory
from helen.journal import lazy_parquet

# Sets how many more objects may come than go before the garbage collector looks at the new ones, which holds the
# reactor: at 50,000 it did so for 55 ms, half of them what requests had left behind. 2,000 take 2 ms.
# helen/garbage_looks.py looks earlier where as many go as come. A full look takes 0.1 s and more with 20,000 states,
# and is put off, for hours at the highest load: what ends here is in no cycle of ours.
COLLECT = (2_000, 10, 100_000)
# After so long a thread that computes lets another one run. An agent's ping takes the interpreter back three times
# (poll, recv, send), and the journal's threads compute while agents wait; Python's own figure is 5 ms.
SWITCH_SECONDS = 0.00005


def set_up() -> None:
    """Let threads change often, and freeze what is here: the garbage collector needn't look at it for every result."""
    sys.setswitchinterval(SWITCH_SECONDS)
    heap_memory.keep()
    if gc.isenabled():  # else a person waits for the first result: 0.2 s, and little is to be found yet
        gc.collect()
        lazy_parquet.load()
    gc.freeze()
    gc.set_threshold(*COLLECT)
    gc.enable()
