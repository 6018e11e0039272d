"""The route of code that runs once: `helen check dry-run`, `helen repl`. docs/api.rst has it."""

from __future__ import annotations

from typing import Any

from klein import Klein

from equus_protocol import once
from helen.one_shots import Code, Signed
from helen.web.bodies import (
    read_asking_time,
    read_body,
    read_files,
    read_object,
    read_optional_text,
    read_patterns,
    read_seconds,
    read_text,
    wants_dry_run,
)
from helen.web.problems import write_json
from helen.web.shown import would_ask


def read_wanted(body: dict[str, Any]) -> Code | Signed:
    """What is to run: with `order` it is signed already, else Helen signs."""
    files = read_files(body, "files")
    envelope = read_optional_text(body, "order")
    if envelope is not None:
        return Signed(envelope.encode(), files)
    on, life = tuple(read_patterns(body, "on")), read_seconds(body, "life", once.LIFE)
    return Code(read_text(body, "check"), files, read_object(body, "args"), on, life)


def add_routes(app: Klein, question: Any) -> None:
    """To the class of the API; `question` answers in lines, as for /runs."""

    @app.route("/api/v1/once", methods=["POST"])
    async def run_once(self: Any, request: Any) -> bytes:
        """Lines of JSON, as of /runs. Nothing that is said is kept."""
        body = await read_body(request)
        wanted, timeout = read_wanted(body), read_asking_time(body)
        if isinstance(wanted, Code):
            self._targets(wanted.on)  # whom nobody would hear of need not be signed for
        dry_run = wants_dry_run(request, body)
        prepared = await self._helen.one_shots.prepare(wanted, request.caller.actor, dry_run)
        if dry_run:
            return write_json(request, would_ask(self._targets(prepared.on)))
        answer: bytes = await question(self._helen, request).ask(
            once.NAME, self._targets(prepared.on), prepared.blob, timeout
        )
        return answer
