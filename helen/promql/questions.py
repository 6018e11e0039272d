"""Answers the questions of Prometheus' API: a path and its parameters in, status and body out. It blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from attrs import frozen

from helen.promql import answers
from helen.promql.archive import Archive, Facts, Reader
from helen.promql.errors import BadData, Refused, TooMuch, Unsupported
from helen.promql.evaluate import Evaluation
from helen.promql.gathering import Slot
from helen.promql.kept_pieces import KeptPieces
from helen.promql.matching import Match
from helen.promql.matrix import Matrix
from helen.promql.needs import Needs
from helen.promql.nodes import NAME, Aggregate, Call, Node, Selector, Text
from helen.promql.parameters import Parameters
from helen.promql.syntax import read_question, read_selector, selectors

HOUR = 3_600_000  # milliseconds before `end` that a list of labels is made from without `start`
LISTED_AT = "m5"  # the finest resolution that lists are made from where there is a lake
MOST_MATCHES = 20  # of one list
_DOWN, _UP = ("sort_desc", "topk"), ("sort", "bottomk")


def ask(path: str, given: Parameters, facts: Facts, kept: KeptPieces) -> answers.Answer:
    """Return the answer to a question by its path behind /api/v1/. It raises neither Refused nor MemoryError.

    A question that finds too little memory is answered once more with all of it: what is kept of others is dropped.
    """
    try:
        return Question(given, Archive(facts, kept)).answer(path)
    except Refused as error:
        return answers.failure(error)
    except MemoryError:
        has_room = kept.clear()
    if has_room:  # behind the handler, whose error holds on to all that was read
        return ask(path, given, facts, KeptPieces(0))
    return answers.failure(TooMuch("that takes more memory than a question may have: ask for fewer series"))


@frozen
class Question:
    """Holds one question, and what its answer is made from."""

    given: Parameters
    archive: Archive

    def answer(self, path: str) -> answers.Answer:
        """Return the answer to a question by its path behind /api/v1/. It never raises Refused, but MemoryError."""
        try:
            return answers.success(self._answer(path))
        except Refused as error:
            return answers.failure(error)

    def _answer(self, path: str) -> Any:
        if path.startswith("label/"):
            return self._label_values(path.removeprefix("label/").removesuffix("/values"))
        made: Callable[[], Any] = {
            "query": self._instant, "query_range": self._range, "labels": self._labels, "series": self._series,
            "metadata": self._metadata,
        }[path]  # fmt: skip
        return made()

    def _instant(self) -> Any:
        node, time = read_question(self.given.text("query") or ""), self.given.time("time", self.given.now)
        steps = np.array([time], np.int64)
        if isinstance(node, Text):
            return {"resultType": "string", "result": [time / 1000, node.value]}
        evaluation = self._evaluation(node, steps, time)
        if isinstance(node, Selector) and node.range is not None:
            end = int(evaluation.times_of(node)[0])
            return answers.samples(evaluation.samples.of(node), end - node.range, end)
        found = evaluation.value(node)
        if not isinstance(found, Matrix):
            return answers.scalar(float(found[0]), time)
        name = node.name if isinstance(node, Aggregate | Call) else ""
        return answers.vector(found, time, "down" if name in _DOWN else "up" if name in _UP else None)

    def _range(self) -> Any:
        node, steps = read_question(self.given.text("query") or ""), np.array(self.given.steps(), np.int64)
        if isinstance(node, Text) or (isinstance(node, Selector) and node.range is not None):
            raise BadData("a range is asked of numbers and series, not of a string or a range of samples")
        found = self._evaluation(node, steps, self.given.time("end")).value(node)
        if not isinstance(found, Matrix):
            found = Matrix.of([{}], [(found, np.ones(len(steps), bool))], len(steps))
        return answers.matrix(found, steps)

    def _evaluation(self, node: Node, steps: Any, last: int) -> Evaluation:
        """Return what evaluates a question up to `last`, with the resolution that fits all of it."""
        lookback, all_of = self.given.lookback(), list(selectors(node))
        draft = Evaluation(_Nothing(), steps, last, lookback)
        ends = {each: draft.times_of(each) for each in all_of}
        begin = min((int(ends[each][0]) - (each.range or lookback) for each in all_of), default=int(steps[0]))
        end = max((int(ends[each][-1]) for each in all_of), default=int(steps[-1]))
        shortest = min((each.range for each in all_of if each.range is not None), default=None)
        resolution = self.archive.resolution(max(begin, 0), max(end, 0), shortest, self.given.text("resolution"))
        lookback = max(lookback, 2 * self.archive.step(resolution))
        spans = {each: (max(0, int(ends[each][0]) - (each.range or lookback)), max(0, int(ends[each][-1])))
                 for each in all_of}  # fmt: skip
        return Evaluation(Reader(self.archive, spans, resolution, Needs.of(node)), steps, last, lookback)

    # ------------------------------------------------------------------------------------------- lists

    def _series(self) -> Any:
        if not self.given.texts("match[]"):
            raise BadData('no match[] parameter provided: such as match[]=used{agent="web-1"}')
        found = sorted(slot.labels.items() for slot in self._slots())
        return self._cut([dict(sorted(labels)) for labels in found])

    def _labels(self) -> Any:
        return self._cut(sorted({name for slot in self._slots() for name in slot.labels}))

    def _label_values(self, name: str) -> Any:
        return self._cut(sorted({slot.labels[name] for slot in self._slots() if name in slot.labels}))

    def _metadata(self) -> Any:
        wanted = self.given.text("metric")
        found: dict[str, dict[tuple[str, str], dict[str, str]]] = {}
        for slot in self._slots([Match(NAME, "=", wanted)] if wanted else []):
            said = {"type": slot.kind, "help": "", "unit": slot.unit}
            found.setdefault(slot.labels[NAME], {})[slot.kind, slot.unit] = said
        most = self.given.limit()
        return {name: list(found[name].values()) for name in sorted(found)[:most]}

    def _slots(self, matches: Iterable[Match] = ()) -> Iterable[Slot]:
        end = self.given.time("end", self.given.now)
        begin = self.given.time("start", max(0, end - HOUR))
        if end < begin:
            raise BadData("`end` is before `start`")
        chosen = self.archive.resolution(begin, end)
        resolution = LISTED_AT if chosen == "raw" and self.archive.has_lake() else chosen
        texts = self.given.texts("match[]")
        if len(texts) > MOST_MATCHES:
            raise BadData(f"at most {MOST_MATCHES} times `match[]`")
        picks = [read_selector(text).matches for text in texts] or [tuple(matches)]
        found = dict[Any, Slot]()
        for each in picks:
            found |= self.archive.gather((*each, *matches), begin, end, resolution, names_only=True).slots
        return found.values()

    def _cut(self, listed: list[Any]) -> list[Any]:
        return listed[: self.given.limit()]


class _Nothing:
    """Has no samples: for an evaluation that only tells times."""

    def of(self, selector: Selector) -> Any:
        """Raises Unsupported: nothing is evaluated yet."""
        raise Unsupported("nothing is read yet")
