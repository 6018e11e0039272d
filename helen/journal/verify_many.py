"""Checks the histories of several Helens: everything that any of them acknowledged must be in one of the histories.

    python -m helen.journal.verify_many STATE STATE ...

An agent that moves goes on with its spool, so one spool may lie in several histories. Each history is checked by itself
first (verify.py); then all together: a result that one Helen left out because another was to have it must be there. A
result that two have (the first was gone before the agent had heard its ack) has to be the same, byte for byte, and
counts once. The exit status is as of verify.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path

from attrs import frozen

from groundwork.counts import count
from groundwork.safe_text import safe_line
from helen.journal.disk import Disk
from helen.journal.folder import Folder
from helen.journal.marks import Mark, Span
from helen.journal.values import OWN_SPOOL, Ack, Entry
from helen.journal.verify import MOST_PROBLEMS, Check, holes, span_text

Name = tuple[str, str]  # agent, spool


@frozen
class CombinedReport:
    """Reports the findings. `results` are counted once; `repeated` of them are with two Helens or more."""

    results: int
    repeated: int
    problems: tuple[str, ...]


class _One(Check):
    """Checks one history, and remembers the digest of each result."""

    def __init__(self, state: Path) -> None:
        super().__init__(Folder(state / "journal", state / "history", Disk()))
        self.state = state
        self.contents: defaultdict[Name, dict[int, bytes]] = defaultdict(dict)

    def _take(self, where: str, entry: Entry) -> None:
        super()._take(where, entry)
        if entry.spool != OWN_SPOOL:
            self.contents[entry.agent, entry.spool][entry.sequence] = blake2b(entry.blob, digest_size=8).digest()


def check_together(states: Sequence[Path], acked: Iterable[Ack] = ()) -> CombinedReport:
    """Check all of them; `acked` is read first, as in verify."""
    wanted = {(ack.agent, ack.spool): ack.sequence for ack in sorted(acked, key=lambda ack: ack.sequence)}
    found = [_One(state) for state in states]
    problems: list[str] = []
    for one in found:
        problems += [f"{one.state}: {problem}" for problem in one.run([]).problems]
    results = repeated = 0
    for name in sorted({name for one in found for name in one.contents} | wanted.keys()):
        held = [one.contents[name] for one in found if name in one.contents]
        everywhere = set().union(*held)
        results += len(everywhere)
        repeated += sum(map(len, held)) - len(everywhere)
        problems += _differences(name, held)
        problems += _missing(name, found, everywhere, wanted.get(name, 0))
    return CombinedReport(results, repeated, tuple(problems[:MOST_PROBLEMS]))


def _differences(name: Name, held: list[dict[int, bytes]]) -> list[str]:
    wrong = [
        sequence for number, one in enumerate(held) for other in held[number + 1 :]
        for sequence in one.keys() & other.keys() if one[sequence] != other[sequence]
    ]  # fmt: skip
    return [f"{name[0]} {name[1]} {sequence} is another thing with each of two Helens." for sequence in sorted(wrong)]


def _missing(name: Name, found: list[_One], present: set[int], acked: int) -> list[str]:
    """Return the holes up to the highest mark of any Helen; only a gap record, in any history, explains one."""
    mark = Mark()
    for sequence in sorted(present):
        mark.add(sequence)
    for first, last in _gaps(name, found):
        mark.cover(first, last)
    last = max([acked, mark.highest(), *(one.high_of(name) for one in found)])
    begins = min(present, default=1) if any(one.is_cut_off for one in found) else 1
    lost = [span_text(low, high) for low, high in holes(mark, begins, last)]
    return [f"{name[0]} {name[1]}: {text} acknowledged, and in no history." for text in lost]


def _gaps(name: Name, found: list[_One]) -> list[Span]:
    return [gap for one in found for gap in one.gaps_of(name)]


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m helen.journal.verify_many", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("states", type=Path, nargs="+", metavar="STATE", help="a Helen's state folder")
    options = parser.parse_args(arguments)
    try:
        report = check_together(options.states)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for problem in report.problems:
        print(safe_line(problem))
    verdict = count(len(report.problems), "problem") if report.problems else "nothing lost"
    print(
        f"{count(report.results, 'result')} of agents with {count(len(options.states), 'Helen')}, {report.repeated} of"
        f" them with more than one: {verdict}."
    )
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
