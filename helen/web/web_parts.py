"""Adds to the parts of Helen those that the web interface keeps for itself: tokens, sessions, streams, state rows,
pings."""

from __future__ import annotations

import time

from attrs import fields, frozen

from helen.parts import Parts
from helen.passive.pings import Pings
from helen.promql.processes import QueryProcesses
from helen.storage.web_session_rows import WebSession
from helen.storage.web_token_rows import WebToken
from helen.web.lake_reads import LakeReads
from helen.web.login.links import Links
from helen.web.login.open_answers import OpenAnswers
from helen.web.login.sessions import Sessions
from helen.web.login.wrong_tries import FREE_TOKENS, TOKEN_SECONDS, WrongTries
from helen.web.request import ApiRequest, address_of
from helen.web.rows.row_feed import RowFeed
from helen.web.state_rows import StateRows
from helen.web.streaming.streams import Streams
from helen.web.tokens import WebTokens, load_token


@frozen(eq=False, kw_only=True)
class WebParts(Parts):
    """Holds the parts that routes work with. A route that needs none of the web interface's own takes Parts."""

    tokens: WebTokens
    browsers: Sessions  # Parts.sessions are those of agents
    links: Links
    wrong_tries: WrongTries  # at the login
    wrong_tokens: WrongTries  # everywhere else
    open_answers: OpenAnswers
    streams: Streams
    state_rows: StateRows
    pings: Pings
    lake_reads: LakeReads
    query_processes: QueryProcesses
    row_feed: RowFeed

    @classmethod
    def of(cls, parts: Parts, stored: tuple[WebToken, ...], begun: tuple[WebSession, ...]) -> WebParts:
        """Return the parts with those of the web interface. Blocking.

        `stored` are the API's tokens in the database, `begun` the sessions of browsers.
        """
        rotation = parts.sessions.fair_turns.rotation
        feed = RowFeed(
            rotation,
            lambda: parts.evaluator.timeline,
            lambda: parts.evaluator.at,
            lambda: parts.events.newest,
            parts.sessions.roster.agents,
            time.monotonic,
            parts.started_at,
            rotation.slice_seconds,
        )
        streams = Streams(parts.reactor, parts.events, parts.telemetry.cut, feed)
        answers = OpenAnswers()

        def revoked(name: str) -> None:
            answers.cut_token(name)
            browsers.sweep(time.time())

        tokens = WebTokens(parts.store, stored, load_token(parts.state / "web.token"), revoked)
        browsers = Sessions(parts.store, begun, tokens.is_good, answers.cut_session)
        return cls(
            **{each.name: getattr(parts, each.name) for each in fields(Parts)},
            tokens=tokens,
            browsers=browsers,
            links=Links(),
            wrong_tries=WrongTries(),
            wrong_tokens=WrongTries(FREE_TOKENS, TOKEN_SECONDS),
            open_answers=answers,
            streams=streams,
            state_rows=StateRows(parts.evaluator),
            pings=Pings(parts.passive, parts.commands),
            lake_reads=LakeReads(),
            query_processes=QueryProcesses(parts.reactor),
            row_feed=feed,
        )


def count_wrong_token(parts: WebParts, request: ApiRequest) -> None:
    """Count that a request shows a token or a key that opens nothing. Raises Problem 429 if its address has too many.

    A good one is taken all the same, from any address.
    """
    parts.wrong_tokens.count(address_of(request), parts.reactor.seconds())
