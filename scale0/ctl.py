"""Runs `scale0ctl`, which looks at a broker and changes its state, and makes keys and password records.

Each command that asks a broker is one MANAGEMENTREQ. The exit status is 0 for success, 1 for a refusal or no answer,
2 for wrong usage.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.task import react

from groundwork.authority import ROLES
from groundwork.duration_option import DurationOption
from groundwork.option_place import OptionsBefore
from groundwork.safe_text import safe_line
from groundwork.steady_reactor import use_monotonic_clock
from groundwork.terminal import complain, echo, echo_json
from scale0.config import syntax
from scale0.config.keys import KeyFault, Pair, load_pair, write_pair
from scale0.wire import frames as wire
from scale0.wire import options as opt
from scale0.wire.frames import S0, MalformedMessage
from scale0.wire.management_commands import COMMANDS, ManagementCommand

try:
    from scale0.wire.reader import CurveClient, Kind, Network, SocketError, new_keys
except ImportError as e:  # pyzmq is an extra of the distribution
    raise SystemExit(f"scale0ctl needs pyzmq ({e}); install helen-equus[zmq]") from e

SCRYPT = 1 << 14, 8, 1  # N, r, p: 16 MiB and some 50 ms for each guess

Settings = dict[str, Any]


class CommandFailed(Exception):
    """Ends a command with exit status 1; the text goes to standard error."""


# ----------------------------------------------------------------------------------- asking a broker


def ask(reactor: Any, settings: Settings, command: str, key: str = "") -> Deferred[Settings]:
    """Send one MANAGEMENTREQ; the Deferred fires with the answer: `code`, `reason`, `message` and `data`.

    It fails with CommandFailed after the timeout. Raises CommandFailed if the endpoint or a key is malformed, and
    KeyFault if the own pair cannot be read.
    """
    done: Deferred[Settings] = Deferred()
    silence = CommandFailed(
        f"no answer from {settings['broker']} within {settings['timeout']:g} s; is this the broker's frontend port, "
        "and do the keys match?"
    )

    def received(frames: list[bytes], origin: object) -> None:
        """End the waiting with the first answer."""
        try:
            message = wire.parse(frames)
            answer = opt.decode_any(message.options)
        except (MalformedMessage, opt.Fault) as e:
            answer, message = {"code": 400, "reason": "malformed", "message": str(e)}, None
        if not done.called and (message is None or message.command in ("MANAGEMENTREP", "DISCONNECTERROR")):
            timer.cancel()
            if answer.pop("data_in_body", False) and message is not None:
                answer["data"] = msgspec.json.decode(message.body[0])
            done.callback(answer)

    try:
        socket = Network.of(reactor).socket(Kind.DEALER, received, security=_security(settings))
        socket.connect(settings["broker"])
    except SocketError as e:
        raise CommandFailed(str(e)) from e
    timer = reactor.callLater(settings["timeout"], lambda: done.errback(silence))
    request = {"auth_id": settings["auth_id"], "auth_password": settings["password"], "command": command, "key": key}
    socket.send(wire.scale0(S0, "MANAGEMENTREQ", opt.encode(request)))
    return done


def _security(settings: Settings) -> CurveClient | None:
    if settings["curve_key"] is None:
        return None
    pair = load_pair(Path(settings["curve_key"]))
    return CurveClient(pair.public, pair.secret, settings["server_key"])


def _run(settings: Settings, command: str, key: str = "") -> None:
    """Ask the broker, show the answer, and exit."""

    async def main(reactor: Any) -> None:
        """Ask under a running reactor. Raises SystemExit with status 1 if that failed."""
        use_monotonic_clock(reactor)
        try:
            answer = await ask(reactor, settings, command, key)
        except (CommandFailed, KeyFault) as e:
            raise SystemExit(_complain(str(e))) from e
        finally:
            await Network.of(reactor).close()
        _show(command, answer, settings["output"] == "json")

    react(main)


def _complain(text: str) -> int:
    complain("scale0ctl", text)
    return 1


# --------------------------------------------------------------------------------------- showing it


def _show(command: str, answer: Settings, as_json: bool) -> None:
    if as_json:
        echo_json(answer, indent=2)
    if answer["code"] != 200:
        raise SystemExit(_complain(f"{answer['code']} {answer.get('reason', '')}: {answer.get('message', '')}"))
    if not as_json:
        for line in _lines(command, answer.get("data") or {}):
            echo(line)


def _lines(command: str, data: Settings) -> Iterable[str]:
    if command == "services":
        rows = [[name, *map(str, counts)] for name, counts in data["services"].items()]
        return _table(["SERVICE", "WORKERS", "IDLE", "QUEUED"], rows)
    if command == "clients":
        return _records(data["clients"])
    if command in ("peers", "errors"):
        return _records([{"identity": name} | record for name, record in data.items()])
    if command == "config":
        return syntax.write({k: v for k, v in data.items() if k not in ("LRU",)}, "ZFL").decode().splitlines()
    if not data:
        return ["ok"]
    return [f"{name}: {_spell(value)}" for name, value in data.items()]


def _spell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k}={v}" for k, v in sorted(value.items())) or "-"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return str(value)


def _records(records: list[Settings]) -> Iterable[str]:
    if not records:
        return ["none"]
    names = list(dict.fromkeys(name for record in records for name in record))
    return _table([n.upper() for n in names], [[_spell(r.get(n, "")) for n in names] for r in records])


def _table(head: list[str], rows: list[list[str]]) -> Iterable[str]:
    lines = [[safe_line(cell) for cell in row] for row in (head, *rows)]  # peers choose names
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for row in lines:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


# ------------------------------------------------------------------------------------- the commands


@click.group(cls=OptionsBefore)
@click.option("--broker", metavar="ENDPOINT", envvar="SCALE0_BROKER", help="The broker's frontend, tcp://HOST:PORT.")
@click.option(
    "--auth-id",
    metavar="ID",
    default="",
    envvar="SCALE0_AUTH_ID",
    help="An auth_id of `management` in the broker's configuration.",
)
@click.option(
    "--auth-password-file", type=click.Path(exists=True, dir_okay=False), help="A file; its first line is the password."
)
@click.option(
    "--curve-key", type=click.Path(exists=True, dir_okay=False), help="Your own key pair, as `keygen` writes it."
)
@click.option("--server-key", metavar="KEY", default="", help="The broker's public key; needed with --curve-key.")
@click.option(
    "--timeout",
    type=DurationOption(0.1, 3600),
    default="10s",
    show_default=True,
    help="Time to wait for the answer.",
)
@click.option(
    "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="JSON is for programs."
)
@click.pass_context
def main(context: click.Context, /, **settings: Any) -> None:
    """Look at a Scale0 broker and change its state."""
    context.obj = settings
    if (settings["curve_key"] is None) != (not settings["server_key"]):
        raise click.UsageError("--curve-key and --server-key belong together")


def _settings(context: click.Context) -> Settings:
    settings: Settings = context.obj
    if not settings["broker"]:
        raise click.UsageError(f"the broker is missing: {_typed(context, '--broker tcp://HOST:PORT')}")
    file = settings["auth_password_file"]
    if file is not None:
        settings["password"] = (Path(file).read_text().splitlines() or [""])[0]
    elif sys.stdin.isatty():
        settings["password"] = click.prompt("Password", hide_input=True, err=True)
    else:
        typed = _typed(context, "--auth-password-file FILE")
        raise click.UsageError(f"the password is missing, and there is no terminal to ask for it: {typed}")
    return settings


def _typed(context: click.Context, option: str) -> str:
    """Return the command with an option where it has to stand: before the command's name."""
    return f"`scale0ctl {option} {context.command_path.partition(' ')[2]}`"


def _plain_command(row: ManagementCommand) -> None:
    @main.command(row.cli or row.name, help=row.help)
    @click.pass_context
    def command(context: click.Context) -> None:
        _run(_settings(context), row.name)


for _row in COMMANDS:
    if _row.help:
        _plain_command(_row)


@main.command()
@click.argument("action", required=False, type=click.Choice(["clear"]))
@click.argument("key", required=False, default="")
@click.pass_context
def errors(context: click.Context, action: str | None, key: str) -> None:
    """Show peers that are ignored, since they keep failing.

    `errors clear [KEY]` forgets their failures.
    """
    _run(_settings(context), "clear_errors" if action else "errors", key)


@main.command()
@click.argument("identity")
@click.option(
    "--role", "roles", multiple=True, type=click.Choice(tuple(ROLES)),
    help="What its owner may do that is Helen's; repeatable. Without one it is a plain peer.",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(file_okay=False), default=".", show_default=True, help="The folder; made 0700 if missing."
)
def keygen(identity: str, out: str, roles: tuple[str, ...]) -> None:
    """Make a CURVE key pair in two files.

    IDENTITY.secret stays with its owner; IDENTITY.pub.key goes into the folders of authorized keys.
    """
    path = Path(out) / f"{identity}.secret"
    try:
        Path(out).mkdir(mode=0o700, parents=True, exist_ok=True)
        pair = Pair(*new_keys())
        public = write_pair(path, pair, identity, roles)
    except OSError as e:
        raise SystemExit(_complain(f"{path}: {e.strerror}")) from e
    echo(f"{path}: keep it secret\n{public}: copy it into the folders of authorized keys of {identity}'s peers")
    echo(f"public key {pair.public}")


@main.command()
def password() -> None:
    """Turn a password into the record for a configuration.

    The record is the value of auth_password in `management`."""
    if sys.stdin.isatty():
        secret = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        secret = sys.stdin.readline().rstrip("\n")
    if not secret:
        raise SystemExit(_complain("an empty password; type one, or give it on standard input"))
    salt, (n, r, p) = os.urandom(16), SCRYPT
    key = hashlib.scrypt(secret.encode(), salt=salt, n=n, r=r, p=p)
    echo(f"scrypt${n}${r}${p}${salt.hex()}${key.hex()}")
