"""Notice on the agent's own clock that news are kept from it, and remember which Helens have done so.

A Helen that was taken over can't make an agent run other code, but it can let it run old code: by not answering, by
speaking version 1, by playing old statements. None of these needs a message, so the agent judges by time.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from twisted.logger import Logger

from equus_protocol.freshness import LIFE, Freshness
from groundwork.durations import words_of

FILE = "version-2.json"
AGE_FILE = "freshness.json"
WRITTEN_EVERY = 3_600.0  # seconds of age: so much may be forgotten by a machine whose clock has no battery
# For `loaded`, which is sent whenever its text changes: so without the hours. The self-report has them.
STALE = "no Helen has said for a day that the check set is the newest: a newer one may be withheld"
MOST = 64  # Helens that are remembered: as many as a list of servers names


class News:
    """Keep the age of the newest proof of freshness, and the Helens that keep news back.

    `wall` returns unix seconds and is asked once for each proof; the age grows by `steady`, monotonic seconds, so that
    a clock that is set makes no proof younger or older. `withheld`: a sentence by the address of a Helen.
    """

    log = Logger()

    def __init__(self, wall: Callable[[], float], steady: Callable[[], float]) -> None:
        self.proof: Freshness | None = None
        self.withheld: dict[str, str] = {}
        self._wall, self._steady = wall, steady
        self._age, self._since = 0.0, steady()
        self._was_stale = False
        self._written: tuple[Freshness | None, float] = (None, 0.0)  # the proof, and the age, that `dump` gave last

    def proven(self, proof: Freshness) -> None:
        """Keep the newest proof: that of another Helen about the same manifest may be older than the one in hand."""
        if self.proof is not None and proof.created <= self.proof.created:
            return
        self.proof = proof
        self._age, self._since = max(0.0, self._wall() - proof.created), self._steady()

    @property
    def age(self) -> float:
        """Return the seconds since the newest proof was made; without one, those since the start."""
        return self._age + self._steady() - self._since

    def restore(self, state: Path) -> None:
        """Go on with the age that was written last: no start of the agent makes old news younger. Blocking.

        The time since then is that of the wall clock, but never less than none. A proof that is dated ahead of this
        clock is left out: either clock may be wrong, and the next proof would be refused by it.
        """
        try:
            document = json.loads((state / AGE_FILE).read_bytes())
            age, at, proof = (document[name] for name in ("age", "at", "proof"))
            if any(type(each) not in (int, float) or not 0 <= each < 2**40 for each in (age, at)):
                raise ValueError(document)
            held = None if proof is None else Freshness(int(proof[0]), str(proof[1]), float(proof[2]))
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
            self.log.error("{path} can't be read ({why}): the age of the news begins anew", path=AGE_FILE, why=error)
            return
        now = self._wall()
        self.proof = held if held is not None and held.created <= now else None
        self._age, self._since = age + max(0.0, now - at), self._steady()
        self._written = self.proof, self._age

    def dump(self) -> bytes | None:
        """Return the file that `restore` reads, if there is a new proof or the age has grown by an hour; else None."""
        proof, age = self._written
        if self.proof == proof and self.age - age < WRITTEN_EVERY:
            return None
        self._written = self.proof, self.age
        listed = None if self.proof is None else [self.proof.version, self.proof.digest, self.proof.created]
        return json.dumps({"age": self.age, "at": max(0.0, self._wall()), "proof": listed}).encode()

    def look(self) -> None:
        """Log it, once, when the proof has become too old, and when there is a new one."""
        stale = self.age > LIFE
        if stale and not self._was_stale:
            self.log.error("{why}", why=self.stale())
        elif self._was_stale and not stale:
            self.log.info("a Helen says again that the check set in use is the newest")
        self._was_stale = stale

    def stale(self) -> str | None:
        """Return why the set in use may be old, if no Helen has said for a day that it is the newest."""
        if self.age <= LIFE:
            return None
        since = words_of(self.age)
        return f"for {since} no Helen has said that the check set is the newest: a newer one may be withheld"

    def kept_back(self, helen: str, how: str) -> None:
        """Remember, and log once, that a Helen keeps news back; `how` ends the sentence."""
        text = f"{helen} {how}"
        if self.withheld.get(helen) == text:
            return
        self.withheld.pop(helen, None)
        while len(self.withheld) >= MOST:
            del self.withheld[next(iter(self.withheld))]
        self.withheld[helen] = text
        self.log.error("news are kept from this agent: {text}", text=text)

    def answered(self, helen: str) -> None:
        """Forget that a Helen kept news back, because it has answered as it should."""
        if self.withheld.pop(helen, None) is not None:
            self.log.info("{helen} answers again", helen=helen)


def load_speakers(state: Path) -> frozenset[str]:
    """Return the addresses of Helens that have spoken version 2 with this agent; none if the file is not there.

    One that can't be read is logged, and counts as none: until they speak again, version 1 is no surprise from them.
    """
    try:
        listed = json.loads((state / FILE).read_bytes())
        return frozenset(each for each in listed[:MOST] if isinstance(each, str))
    except FileNotFoundError:
        return frozenset()
    except (OSError, ValueError, TypeError) as error:
        News.log.error("{path} can't be read ({why}): version 1 is taken from every Helen", path=FILE, why=error)
        return frozenset()


def dump_speakers(helens: frozenset[str]) -> bytes:
    """Return the file that `load_speakers` reads."""
    return json.dumps(sorted(helens)[:MOST]).encode()
