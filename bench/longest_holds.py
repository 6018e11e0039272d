"""How long one result holds the interpreter, whose other threads wait meanwhile: hostile results of 1 MiB, of any kind.

    python bench/longest_holds.py --turns 5
    python bench/longest_holds.py --kind keys --kind "text: lines"

Each is read as Helen's journal reads it, and read and written again as an answer for somebody who asked. One thread
does that. Another one wants the interpreter all the time, and looks at each of its turns how much CPU the first has
used since the last one. The greatest such step is the figure, the least of some turns: CPU and not time, so that a busy
machine changes it little. `tests/equus_protocol/test_hostile_results.py` has the same results, and no clock.
"""

from __future__ import annotations

import argparse
import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))  # the products, when they are not installed

from equus_protocol.result_fields import MAX_PARTS
from equus_protocol.results import parse
from helen.journal.document import read_document
from helen.queries.answers import _made

MIB = 1_048_576
STEP_SECONDS = 1e-5  # after which a thread that wants the interpreter asks for it
LISTED, METRICS = ('{"status":"ok","x":[', "]}"), ('{"status":"ok","metrics":[', "]}")
LABELS = ('{"status":"ok","metrics":[{"name":"m","labels":{', "}}]}")
TRUNCATED = ('{"status":"ok","truncated":{', "}}")
TOP, INNER = ('{"status":"ok",', "}"), ('{"status":"ok","x":{', "}}")


def fill(around: tuple[str, str], unit: Callable[[int], str], between: str = ",", most: int = MIB) -> bytes:
    """Return a document of so many units as fit into `most` bytes, whose parts are all different if units are."""
    begin, end = (each.encode() for each in around)
    units, size = [], len(begin) + len(end)
    for number in count():
        made = unit(number).encode()
        size += len(made) + len(between)
        if size > most:
            return begin + between.encode().join(units) + end
        units.append(made)
    raise AssertionError("count() ends nowhere")


def limited(around: tuple[str, str], unit: Callable[[int], str], parts: int) -> bytes:
    """Return a document with as many units as MAX_PARTS lets it have. `parts`: of each unit and the comma behind it."""
    outside = sum(around[0].count(each) for each in ",[{") - 1  # there is one comma less than units
    return (around[0] + ",".join(map(unit, range((MAX_PARTS - outside) // parts))) + around[1]).encode()


def output(unit: str) -> bytes:
    return fill(('{"status":"ok","output":"', '"}'), lambda _: unit, "")


# More parts than a result may have, or about to be: none of them reaches a parser of JSON.
REFUSED: dict[str, Callable[[], bytes]] = {
    "empty lists": lambda: fill(LISTED, lambda _: "[]"),
    "empty objects": lambda: fill(LISTED, lambda _: "{}"),
    "floats": lambda: fill(LISTED, lambda _: "0.12345678"),
    "whole numbers": lambda: fill(LISTED, lambda _: "1"),
    "the least floats": lambda: fill(LISTED, lambda _: "2.2250738585072011e-308"),
    "texts": lambda: fill(LISTED, '"{:x}"'.format),
    "words": lambda: fill(LISTED, lambda _: "true"),
    "keys": lambda: fill(TOP, '"{:x}":1'.format),
    "keys of an inner object": lambda: fill(INNER, '"{:x}":1'.format),
    "one key many times": lambda: fill(TOP, lambda _: '"a":1'),
    "objects": lambda: fill(LISTED, lambda _: '{"a":1}'),
    "metrics": lambda: fill(METRICS, lambda _: '{"name":"m"}'),
    "metrics that are none": lambda: fill(METRICS, lambda _: "1"),
    "labels": lambda: fill(LABELS, '"{:x}":""'.format),
    "lengths": lambda: fill(TRUNCATED, '"{:x}":1'.format),
    "60 levels, many times": lambda: fill(LISTED, lambda _: "[" * 60 + "]" * 60),
    "900 levels, many times": lambda: fill(LISTED, lambda _: "[" * 900 + "]" * 900),
    "lists that stay open": lambda: b"[" * MIB,
    "objects that stay open": lambda: b'{"a":' * (MIB // 5),
    "escapes in texts": lambda: fill(LISTED, lambda _: r'"\n\u2603\\"'),
}
# As many parts as a result may have, and few parts that are long.
READ: dict[str, Callable[[], bytes]] = {
    "empty lists, at the limit": lambda: limited(LISTED, lambda _: "[]", 2),
    "floats, at the limit": lambda: limited(LISTED, lambda _: "0.12345678", 1),
    "keys, at the limit": lambda: limited(TOP, '"{:026x}":""'.format, 1),
    "keys that are escaped, at the limit": lambda: limited(INNER, '"{:x}\\n\\u2603":"\\n"'.format, 1),
    "labels, at the limit": lambda: limited(LABELS, '"{:x}":"v"'.format, 1),
    "lengths, at the limit": lambda: limited(TRUNCATED, '"{:x}":1'.format, 1),
    "60 levels, at the limit": lambda: limited(LISTED, lambda _: "[" * 60 + "]" * 60, 61),
    "numbers of 300 digits": lambda: fill(LISTED, lambda _: "9" * 300),
    "numbers of 4,000 digits": lambda: fill(LISTED, lambda _: "9" * 4_000),
    "fractions of 700 digits": lambda: fill(LISTED, lambda _: "0." + "1234567" * 100),
    "one whole number": lambda: b'{"status":"ok","x":' + b"1" * (MIB - 20) + b"}",
    "one fraction": lambda: b'{"status":"ok","x":1.' + b"1" * (MIB - 22) + b"}",
    "newlines": lambda: output(r"\n"),
    "escapes": lambda: output(r"a\u2603"),
    "pairs of surrogates": lambda: output(r"\ud83d\ude00"),
    "halves of surrogates": lambda: output(r"\ud83d"),
    "backslashes": lambda: output(r"\\"),
    "quotes": lambda: output(r"\""),
    "commas and brackets": lambda: output("],[{"),
    "letters": lambda: output("a"),
    "characters of three bytes": lambda: output("☃"),
    "a key": lambda: b'{"status":"ok","' + b"k" * (MIB - 20) + b'":1}',
    "blanks": lambda: b'{"status":"ok","x":1' + b" " * (MIB - 21) + b"}",
    "blanks before it": lambda: b" " * (MIB - 15) + b'{"status":"ok"}',
}


def text(begin: str, unit: str = "", end: str = "") -> Callable[[], bytes]:
    return lambda: fill((begin, end), lambda _: unit, "") if unit else begin.encode()


TEXT: dict[str, Callable[[], bytes]] = {
    "no UTF-8": lambda: b"\xff" * MIB,
    "text: lines": text("", "\n"),
    "text: lines, a bar": text("x|a=1\n", "\n"),
    "text: lines, a status": text("", "\n", "status ok"),
    "text: lines behind a status": text("status ok\n", "\n"),
    "text: lines of blanks": text("", " " * 1_023 + "\n"),
    "text: one line of blanks": text("", " ", "status ok"),
    "text: metrics": text("status ok\n", "metric a int 1\n"),
    "text: metrics before the status": text("", "metric a int 1\n", "status ok\n"),
    "text: metrics that are none": text("status ok\n", "metric\n"),
    "text: one metric of blanks": text("status ok\nmetric a", " "),
    "text: statuses": text("x\n", "status ok\n"),
    "text: one word": text("|", "a"),
    "text: words": text("|", "a "),
    "text: words with equals signs": text("|", "= "),
    "text: figures": text("x|", "a=1 "),
    "text: digits": text("|a=", "1", "'"),
    "text: limits": text("x|a=1", ";"),
    "text: spaces between figures": text("x|a=1", " ", "b=1"),
    "text: quotes": text("|", "'"),
    "text: quotes that stay open": text("|", "'a "),
    "text: a label in quotes": text("|'", "a", "'=1"),
    "text: a label of quotes": text("|'", "''", "'=1"),
    "text: bars": text("|a=1", "|"),
    "text: a summary of words": text("", "OKA ", "|a=1"),
}
ALL = REFUSED | READ | TEXT


def longest_step(work: Callable[[], object]) -> float:
    """Return the most milliseconds of CPU that the work took between two turns of another thread."""
    is_done, steps = threading.Event(), [0.0]

    def run() -> None:
        work()
        is_done.set()
        finished.wait()

    finished = threading.Event()
    thread = threading.Thread(target=run)
    thread.start()
    clock = time.pthread_getcpuclockid(thread.ident or 0)
    last = 0.0
    while not is_done.is_set():
        time.sleep(0)
        now = time.clock_gettime(clock)
        steps.append(now - last)
        last = now
    finished.set()
    thread.join()
    return max(steps) * 1_000


def measured(kinds: list[str], turns: int) -> Iterator[tuple[str, float, float, str]]:
    """Yield the name, the longest step of the journal and of an answer, and what the result is read as."""
    for name in kinds:
        blob = ALL[name]()
        journal = min(longest_step(partial(read_document, "c", blob)) for _ in range(turns))
        asked = min(longest_step(partial(_made, "web-1", blob, parse)) for _ in range(turns))
        yield name, journal, asked, parse(blob).reason or "read"


def main() -> None:
    """Print a line for each kind, and the worst of all."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--turns", type=int, default=3, help="the least of so many counts")
    asked.add_argument("--kind", action="append", choices=ALL, metavar="NAME", help="measure this kind alone")
    given = asked.parse_args()
    sys.setswitchinterval(STEP_SECONDS)
    gc.freeze()
    print(f"{'ms, of CPU':<40}{'journal':>9}{'answer':>9}  read as")
    worst = [0.0, 0.0]
    for name, journal, answered, reason in measured(given.kind or list(ALL), given.turns):
        print(f"{name:<40}{journal:>9.1f}{answered:>9.1f}  {reason}", flush=True)
        worst = [max(worst[0], journal), max(worst[1], answered)]
    print(f"{'the longest':<40}{worst[0]:>9.1f}{worst[1]:>9.1f}")


if __name__ == "__main__":
    main()
