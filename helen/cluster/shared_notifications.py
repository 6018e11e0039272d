"""Shares notifications.toml, the rules of notifications, between all Helens; the newest counts.

    {"text": the whole of notifications.toml, sealed, or null if there is none, "by": the Helen at which it was changed}

It is sealed because a URL or a password may stand in it: brokers carry the document, and only Helens can read it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from helen.cluster.network_key import NetworkKey, NotSealed
from helen.cluster.shared_part import NotYet
from helen.storage.config_file import ConfigFile

SEALED_FOR = "notifications"
MOST_NAME = 100  # characters of a Helen's identity


class NotificationsPart:
    """Publishes the file when it changes here, and rewrites it when it changed elsewhere.

    `set_aside(text)` keeps a text that is replaced, so that an operator finds it again.
    """

    names = ("notifications",)
    in_memory = False

    def __init__(
        self, file: ConfigFile[Any], key: NetworkKey, identity: str, set_aside: Callable[[str], Awaitable[None]]
    ) -> None:
        self._file, self._key, self._identity, self._set_aside = file, key, identity, set_aside

    def wanted(self, name: str, value: Any) -> Any:
        """Return our text, if it is another one than the network's. A Helen that never had a file says nothing."""
        ours, theirs = self._file.taken, self._unsealed(value) if value else None
        if not self._file.is_in_force or ours == theirs:
            return None
        text = None if ours is None else self._key.seal(ours.encode(), SEALED_FOR)
        return {"text": text, "by": self._identity}

    async def adopt(self, name: str, value: Any) -> None:
        """Rewrite the file. Raises NotYet if the text can't be used by this Helen."""
        try:
            text, by = self._unsealed(value), str(value["by"])[:MOST_NAME]
        except (NotSealed, LookupError, TypeError, ValueError) as error:
            raise NotYet(f"the notifications of the network can't be read here: {error}") from error
        if self._file.is_in_force and self._file.taken == text:
            return
        try:
            held = await self._file.text()
            if held and held != text:
                await self._set_aside(held)
            await self._file.rewrite(text, f"the network, by {by}")
        except self._file.refusal as error:
            raise NotYet(f"the notifications of {by} can't be used here: {error}") from error

    def _unsealed(self, value: Any) -> str | None:
        sealed = value["text"]
        if sealed is None:
            return None
        if not isinstance(sealed, str):
            raise NotSealed("its text is no text")
        return self._key.unseal(sealed, SEALED_FOR).decode()
