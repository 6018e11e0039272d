"""The history check over several Helens: is everything that any of them acknowledged in the history of one of them?

    python -m helen.journal.together STATE STATE ...

An agent that moves goes on with its spool, so one spool may lie in several histories. Each history is checked by itself
first (verify.py); then all together: what one Helen left out because another was to have it must be there. What two
have (the first was gone before the agent had heard its ack) has to be the same, byte for byte, and counts once. Status
as of verify.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path

from attrs import frozen

from helen.journal.disk import Disk
from helen.journal.folder import Folder
from helen.journal.marks import Mark, Span
from helen.journal.values import OWN_SPOOL, Ack, Entry
from helen.journal.verify import MOST_PROBLEMS, Check, holes, span_text

Name = tuple[str, str]  # agent, spool


@frozen
class Together:
    """What the check found. `results` are counted once; so many of them are with two Helens or more."""

    results: int
    repeated: int
    problems: tuple[str, ...]


class _One(Check):
    """The check of one history, which remembers what was in each place, and up to where Helen answers for it."""

    def __init__(self, state: Path) -> None:
        super().__init__(Folder(state / "journal", state / "history", Disk()))
        self.state = state
        self.contents: defaultdict[Name, dict[int, bytes]] = defaultdict(dict)

    def _take(self, where: str, entry: Entry) -> None:
        super()._take(where, entry)
        if entry.spool != OWN_SPOOL:
            self.contents[entry.agent, entry.spool][entry.sequence] = blake2b(entry.blob, digest_size=8).digest()


def check_together(states: Sequence[Path], acked: Iterable[Ack] = ()) -> Together:
    """Check all of them; `acked` is read first, as verify has it."""
    wanted = {(ack.agent, ack.spool): ack.sequence for ack in sorted(acked, key=lambda ack: ack.sequence)}
    found = [_One(state) for state in states]
    problems: list[str] = []
    for one in found:
        problems += [f"{one.state}: {problem}" for problem in one.run([]).problems]
    results = repeated = 0
    for name in sorted({name for one in found for name in one.contents} | wanted.keys()):
        said = [one.contents[name] for one in found if name in one.contents]
        everywhere = set().union(*said)
        results += len(everywhere)
        repeated += sum(map(len, said)) - len(everywhere)
        problems += _differences(name, said)
        problems += _missing(name, found, everywhere, wanted.get(name, 0))
    return Together(results, repeated, tuple(problems[:MOST_PROBLEMS]))


def _differences(name: Name, said: list[dict[int, bytes]]) -> list[str]:
    wrong = [
        sequence for number, one in enumerate(said) for other in said[number + 1 :]
        for sequence in one.keys() & other.keys() if one[sequence] != other[sequence]
    ]  # fmt: skip
    return [f"{name[0]} {name[1]} {sequence} is another thing with each of two Helens." for sequence in sorted(wrong)]


def _missing(name: Name, found: list[_One], present: set[int], acked: int) -> list[str]:
    """Holes up to what any Helen counts as hers; only a gap record, in any history, explains one."""
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
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m helen.journal.together", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("states", type=Path, nargs="+", metavar="STATE", help="a Helen's state folder")
    options = parser.parse_args(arguments)
    try:
        report = check_together(options.states)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for problem in report.problems:
        print(problem)
    verdict = f"{len(report.problems)} problems" if report.problems else "nothing lost"
    print(
        f"{report.results} results of agents with {len(options.states)} Helens, {report.repeated} of them with more"
        f" than one: {verdict}."
    )
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
