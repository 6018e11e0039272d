"""Send one write to Helen, and tell by what comes back whether it was done, was not, or may have been."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import click
from attrs import frozen

from helen.cli.base.client import Client
from helen.cli.base.failures import Failed
from helen.cli.mcp.tool_calls import PATIENCE

AGAIN = (408, 425)  # statuses of the 4xx by which something in between may speak of a request that Helen has
UNKNOWN = ("in progress", "outcome unknown")  # problems of an Idempotency-Key
DONE = "done already"  # likewise: only the answer is gone


@frozen
class Write:
    """Holds one request that changes something. `body` is JSON; with `tag` it is refused if the file has changed.

    A POST goes with a key, by which Helen does it once. A PUT has none: `tag` keeps a second one from changing more,
    and the file tells whether the first one was done.
    """

    method: str
    path: str
    body: str
    tag: str = ""

    @classmethod
    def post(cls, path: str, body: dict[str, Any]) -> Write:
        return cls("POST", path, json.dumps(body))

    def send(self, client: Client, key: str = "", dry_run: bool = False) -> Any:
        """Send it, and return Helen's answer. Raises as the client does."""
        body = json.loads(self.body) | ({"dry_run": True} if dry_run else {})
        if self.method == "PUT":
            return client.put(self.path, body, self.tag, PATIENCE)
        return client.post(self.path, body, PATIENCE, {"idempotency-key": key} if key else None)

    def do(self, client: Client, key: str) -> Any:
        """Send it with its key, and return Helen's answer, or `{"note"}` if it is done and the answer is gone.

        Raises as the client does.
        """
        try:
            return self.send(client, key)
        except click.ClickException as error:
            if isinstance(error, Failed) and (error.status, error.title) == (409, DONE):
                return {"note": error.message}
            if self.method == "PUT" and self._stands(client):
                return {"note": f"{self.path} has this text; the answer to the request was: {error.message}"}
            raise

    def _stands(self, client: Client) -> bool:
        """Return True if the file has the text that was to be written."""
        with contextlib.suppress(click.ClickException, KeyError, TypeError):
            wanted: str = json.loads(self.body)["text"]
            return bool(client.get(self.path, PATIENCE)["text"] == wanted)
        return False

    def shown(self) -> dict[str, Any]:
        return {"method": self.method, "path": self.path, "body": json.loads(self.body)}


def is_refusal(error: click.ClickException) -> bool:
    """Return True if an error says that the request was not done: a problem of Helen's with a status of the 4xx."""
    if not isinstance(error, Failed):
        return True  # Unusable and Missing are such problems
    if error.status is None or not error.title or not 400 <= error.status < 500:
        return False
    return error.status not in AGAIN and (error.status, error.title) not in {(409, each) for each in UNKNOWN}
