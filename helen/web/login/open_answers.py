"""Knows the answers that have no end of their own, so that they end with their token or session."""

from __future__ import annotations

from collections.abc import Callable

from helen.web.access import Caller
from helen.web.request import ApiRequest


class OpenAnswers:
    """Holds the requests of open streams: events, followed jobs, questions that are answered in lines."""

    def __init__(self) -> None:
        self._requests: dict[ApiRequest, None] = {}

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, request: ApiRequest) -> None:
        """Hold a request until it ends."""
        self._requests[request] = None
        request.notifyFinish().addBoth(lambda _: self._requests.pop(request, None))

    def cut_token(self, name: str) -> None:
        """Cut the streams of a token that opens nothing any more, those of its sessions included."""
        self._cut(lambda caller: caller.token == name)

    def cut_session(self, id: str) -> None:
        """Cut the streams of a session that has ended."""
        self._cut(lambda caller: caller.session is not None and caller.session.id == id)

    def _cut(self, is_meant: Callable[[Caller], bool]) -> None:
        for request in [each for each in self._requests if is_meant(each.caller)]:
            request.cut()
