"""Define the settings that all channels over HTTP share, and the request that is made from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, frozen

from helen.files.toml_table import Secret, Table, Text
from helen.notify.attempt import Attempt
from helen.notify.http_post import Request, is_url, post
from helen.notify.payloads import encode_json
from helen.notify.secrets import OpenedSecrets, show_setting, show_url

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_OUR_HEADERS = frozenset(("content-length", "content-type", "host", "transfer-encoding", "connection"))


@frozen
class HttpReceiver:
    """Holds where to post to. `ca`: path of a PEM file with the authorities to trust instead of the system's."""

    url: Text
    headers: dict[str, Text] = field(factory=dict)
    bearer: Secret | None = None
    ca: str | None = None

    @classmethod
    def read(cls, table: Table, usual: str | None = None) -> HttpReceiver:
        """Take `url`, `headers`, `bearer` and `ca`; faults go to `table.faults`.

        `usual`: the URL if none is written; without it there must be one.
        """
        url = table.secret("url", '"https://host/path", or { env = "NAME" }, { file = "/path" }', True, usual is None)
        url = usual if url is None and "url" not in table.content else url
        if isinstance(url, str) and not is_url(url):
            sound = "http://HOST[:PORT]/PATH or https://..., without user and password in it"
            table.faults.append(f"{table.place}: url can't be used: write {sound}")  # it may be a secret: not shown
        headers = table.texts("headers")
        for name in headers:
            if not _HEADER.fullmatch(name) or name.lower() in _OUR_HEADERS:
                table.faults.append(f"{table.place}: headers: {name!r} can't be set")
        bearer, ca = table.secret("bearer"), table.text("ca", "write the path of a PEM file", "")
        return cls(url or "", headers, bearer if isinstance(bearer, Secret) else None, ca or None)

    def show(self) -> dict[str, Any]:
        """Return `url`, `headers` and `bearer`, with secrets masked."""
        return {
            "url": show_url(self.url), "headers": show_setting(self.headers), "bearer": show_setting(self.bearer),
        }  # fmt: skip

    async def post(self, attempt: Attempt, make: Callable[[], Any], path: str = "") -> str:
        """Post the document that `make()` returns to the URL, with `path` added to it; return the answer.

        `make` runs in a thread: a message of 2,000 alerts takes its time. Raises SendFailed if the answer is no 2xx,
        and SecretMissing if a reference leads nowhere.
        """
        request = await attempt.in_thread(lambda: self.request(attempt, make(), path))
        return await post(attempt, request)

    def request(self, attempt: Attempt, document: Any, path: str = "") -> Request:
        """Return a POST of `document` as JSON. Raises SecretMissing if a reference leads nowhere. Blocks: files."""
        headers = {"Idempotency-Key": attempt.message.id}
        return self.request_of(attempt.secrets, encode_json(document), headers, path)

    def request_of(self, secrets: OpenedSecrets, body: bytes, headers: Mapping[str, str], path: str = "") -> Request:
        """Return a POST of `body`, with these headers unless the settings have others of their names.

        Raises SecretMissing if a reference leads nowhere. Blocks: files.
        """
        url = secrets.text(self.url)
        found = {**headers, **secrets.texts(self.headers)}
        if self.bearer is not None:
            found["Authorization"] = f"Bearer {secrets.text(self.bearer)}"
        return Request(url.rstrip("/") + path if path else url, found, body, self.ca)
