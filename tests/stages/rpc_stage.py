"""Plays a broker of ZeroTask by hand, at the far end of a link without sockets, under a clock by hand."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.task import Clock


class BrokerLine:
    """Stands for a link: calls lie in `calls` until they are answered, notifications in `notices`."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.clock.advance(1_000.0)
        self.trouble, self.room, self.is_open = "", True, False
        self.calls: list[tuple[int, str, Any]] = []
        self.notices: list[tuple[str, Any]] = []

    def open(self, received: Any, renewed: Any) -> None:
        self.received, self.renewed, self.is_open = received, renewed, True

    def send(self, text: bytes) -> bool:
        if self.room:
            told = json.loads(text)
            for each in told if isinstance(told, list) else [told]:
                method = each["method"].rpartition(".")[2]
                if "id" in each:
                    self.calls.append((each["id"], method, each["params"]))
                else:
                    self.notices.append((method, each["params"]))
        return self.room

    def close(self) -> None:
        self.is_open = False

    def connect(self) -> None:
        """Make a new connection, as a handshake does."""
        self.renewed()
        self.turn()

    def turn(self, seconds: float = 0.0) -> None:
        """Let time pass, and what is to be sent go out."""
        self.clock.advance(seconds)
        self.clock.advance(0)

    def asked(self) -> list[tuple[str, Any]]:
        """Return the calls that wait for their answer."""
        return [(method, params) for _, method, params in self.calls]

    def take(self, method: str) -> tuple[int, Any]:
        """Return the number and the params of the oldest call of a method, which then waits no longer."""
        found = next(call for call in self.calls if call[1] == method)
        self.calls.remove(found)
        return found[0], found[2]

    def answer(self, method: str, result: Any = True) -> Any:
        """Answer the oldest call of a method; return its params."""
        number, params = self.take(method)
        self._tell({"result": result, "id": number})
        return params

    def refuse(self, method: str, code: int, message: str = "no", data: Any = None) -> Any:
        number, params = self.take(method)
        error = {"code": code, "message": message} | ({} if data is None else {"data": data})
        self._tell({"error": error, "id": number})
        return params

    def notify(self, method: str, params: Any) -> None:
        self._tell({"method": method, "params": params})

    def _tell(self, message: dict[str, Any]) -> None:
        self.received(json.dumps({"jsonrpc": "2.0"} | message).encode())
        self.turn()
