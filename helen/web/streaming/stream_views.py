"""Makes the frames that a stream sends beside events: rows of a board as they change, and results as they come."""

from __future__ import annotations

import json

from attrs import frozen

from helen.agents.sight import Sight
from helen.evaluation.replay import record_of
from helen.journal.values import Origin, StoredResult
from helen.web.agent_views import show_result
from helen.web.connections.packed import block_of
from helen.web.rows.row_feed import RowFeed
from helen.web.rows.selection import ENCODER, FIELDS, Wanted, encode
from helen.web.sight.redaction import seen_result


class RowFrame:
    """Holds a frame of rows, and `look`, that of the feed up to which it goes."""

    def __init__(self, data: bytes, look: int) -> None:
        self.data, self.look = data, look
        self._packed: bytes | None = None

    @property
    def packed(self) -> bytes:
        """Return the frame as blocks of gzip; it is packed once, however many streams send it."""
        if self._packed is None:
            self._packed = block_of(self.data)
        return self._packed


@frozen
class RowView:
    """Describes the rows that a stream sends beside events, see helen/web/rows."""

    wanted: Wanted

    def frame(self, feed: RowFeed, look: int, where: bytes, now: float, counts: dict[str, int]) -> RowFrame | None:
        """Return the frame of what was found after a look, or of the first of it; None if that can't be known.

        `now`: unix seconds. `counts`: of all rows in sight.
        """
        change = feed.since(look)
        if change is None:
            return None
        sight, rows = self.wanted.sight, self.wanted.fitting(change.rows, now)
        fitting = {row.key for row in rows}
        left = [row.key for row in change.rows if row.key not in fitting and (sight is None or sight(row.agent))]
        gone = [list(key) for key in dict.fromkeys((*change.gone_from(sight), *left))]
        told = {"gone": gone, "counts": counts, "at": where.decode(), "look": feed.name_of(change.look)}
        more = ENCODER.encode(told)
        body = f'{{"fields":{ENCODER.encode(FIELDS)},"rows":[{encode(rows)}],{more[1:]}'.encode("utf-8", "replace")
        return RowFrame(b"id: %b\nevent: rows\ndata: %b\n\n" % (where, body), change.look)


@frozen
class ResultView:
    """Names the agents of which a stream sends each result as it comes; a client that was away gets none twice."""

    agents: frozenset[str]

    @staticmethod
    def frame(record: StoredResult, where: bytes, sight: Sight | None = None) -> bytes | None:
        """Return the frame of a result; None for one out of sight, and an answer to a query, which steps no state."""
        past = record_of(record)
        if past.origin == Origin.ASKED or (sight is not None and not sight(past.agent)):
            return None
        shown = {"agent": past.agent, "check_id": past.check_id, **show_result(seen_result(past, sight))}
        return b"id: %b\nevent: result\ndata: %b\n\n" % (
            where,
            json.dumps(shown, ensure_ascii=False).encode("utf-8", "replace"),
        )
