"""`scale0ctl`: look at a broker and change its state, from the command line. Makes keys and password records too.

Each command that asks a broker is one MANAGEMENTREQ. Exit status 0 is fine, 1 a refusal or no answer, 2 wrong usage.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import msgspec
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import react

from scale0 import forms
from scale0 import frames as wire
from scale0 import options as opt
from scale0.frames import S0, Nonsense
from scale0.keys import KeyFault, Pair, load_pair, write_pair

try:
    from scale0.reader import CurveClient, Kind, Network, SocketError, new_keys
except ImportError as e:  # pyzmq is an extra of the distribution
    raise SystemExit(f"scale0ctl needs pyzmq ({e}); install helen-equus[zmq]") from e

SCRYPT = 1 << 14, 8, 1  # N, r, p: 16 MiB and some 50 ms for each guess

Settings = dict[str, Any]


class Refusal(Exception):
    """What there is to say on standard error before exit status 1."""


# ----------------------------------------------------------------------------------- asking a broker


def ask(reactor: Any, settings: Settings, command: str, key: str = "") -> Deferred[Settings]:
    """One MANAGEMENTREQ and its answer, or Refusal."""
    done: Deferred[Settings] = Deferred()
    timer = reactor.callLater(
        settings["timeout"], lambda: done.errback(Refusal(f"no answer from {settings['broker']}"))
    )

    def received(frames: list[bytes], origin: object) -> None:
        try:
            message = wire.parse(frames)
            told = opt.decode_any(message.options)
        except (Nonsense, opt.Fault) as e:
            told, message = {"code": 400, "reason": "malformed", "message": str(e)}, None
        if not done.called and (message is None or message.command in ("MANAGEMENTREP", "DISCONNECTERROR")):
            timer.cancel()
            if told.pop("data_in_body", False) and message is not None:
                told["data"] = msgspec.json.decode(message.body[0])
            done.callback(told)

    try:
        socket = Network.of(reactor).socket(Kind.DEALER, received, security=_security(settings))
        socket.connect(settings["broker"])
    except SocketError as e:
        timer.cancel()
        raise Refusal(str(e)) from e
    request = {"auth_id": settings["auth_id"], "auth_password": settings["password"], "command": command, "key": key}
    socket.send(wire.scale0(S0, "MANAGEMENTREQ", opt.encode(request)))
    return done


def _security(settings: Settings) -> CurveClient | None:
    if settings["curve_key"] is None:
        return None
    pair = load_pair(Path(settings["curve_key"]))
    return CurveClient(pair.public, pair.secret, settings["server_key"])


def _run(settings: Settings, command: str, key: str = "") -> None:
    """Ask, show, exit."""

    def main(reactor: Any) -> Deferred[None]:
        try:
            asked = ask(reactor, settings, command, key)
        except (Refusal, KeyFault) as e:
            raise SystemExit(_complain(str(e))) from e
        asked.addCallbacks(lambda told: _show(command, told, settings["output"] == "json"), _failed)
        return asked.addBoth(_after, reactor)

    react(main)


def _after(outcome: Any, reactor: Any) -> Deferred[Any]:
    return Network.of(reactor).close().addCallback(lambda ignored: outcome)


def _failed(failure: Any) -> Deferred[None]:
    failure.trap(Refusal)
    raise SystemExit(_complain(failure.getErrorMessage()))


def _complain(text: str) -> int:
    click.echo(f"scale0ctl: {text}", err=True)
    return 1


# --------------------------------------------------------------------------------------- showing it


def _show(command: str, told: Settings, as_json: bool) -> Deferred[None]:
    if as_json:
        click.echo(json.dumps(told, indent=2, ensure_ascii=False))
    if told["code"] != 200:
        raise SystemExit(_complain(f"{told['code']} {told.get('reason', '')}: {told.get('message', '')}"))
    if not as_json:
        for line in _lines(command, told.get("data") or {}):
            click.echo(line)
    return succeed(None)


def _lines(command: str, data: Settings) -> Iterable[str]:
    if command == "services":
        rows = [[name, *map(str, counts)] for name, counts in data["services"].items()]
        return _table(["SERVICE", "WORKERS", "IDLE", "QUEUED"], rows)
    if command == "clients":
        return _records(data["clients"])
    if command in ("peers", "errors"):
        return _records([{"identity": name} | record for name, record in data.items()])
    if command == "config":
        return forms.write({k: v for k, v in data.items() if k not in ("LRU",)}, "ZFL").decode().splitlines()
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
    names = list(dict.fromkeys(name for record in records for name in record))
    return _table([n.upper() for n in names], [[_spell(r.get(n, "")) for n in names] for r in records])


def _table(head: list[str], rows: list[list[str]]) -> Iterable[str]:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


# ------------------------------------------------------------------------------------- the commands


@click.group()
@click.option("--broker", metavar="ENDPOINT", envvar="SCALE0_BROKER", help="The broker's frontend, tcp://HOST:PORT.")
@click.option("--auth-id", default="", envvar="SCALE0_AUTH_ID", help="Who asks.")
@click.option(
    "--auth-password-file", type=click.Path(exists=True, dir_okay=False), help="Its first line is the password."
)
@click.option("--curve-key", type=click.Path(exists=True, dir_okay=False), help="The own pair, as keygen writes it.")
@click.option("--server-key", default="", help="The broker's public key; needed with --curve-key.")
@click.option("--timeout", type=click.FloatRange(0.1, 3600), default=10.0, show_default=True, help="Seconds.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.pass_context
def main(context: click.Context, **settings: Any) -> None:
    """Look at a Scale0 broker and change its state."""
    context.obj = settings
    if (settings["curve_key"] is None) != (not settings["server_key"]):
        raise click.UsageError("--curve-key and --server-key belong together")


def _settings(context: click.Context) -> Settings:
    settings: Settings = context.obj
    if not settings["broker"]:
        raise click.UsageError("--broker tcp://HOST:PORT is missing")
    file = settings["auth_password_file"]
    if file is not None:
        settings["password"] = (Path(file).read_text().splitlines() or [""])[0]
    elif sys.stdin.isatty():
        settings["password"] = click.prompt("Password", hide_input=True, err=True)
    else:
        raise click.UsageError("--auth-password-file FILE is missing, and there is no terminal to ask at")
    return settings


def _plain_command(name: str, text: str, asks: str = "") -> None:
    @main.command(name, help=text)
    @click.pass_context
    def command(context: click.Context) -> None:
        _run(_settings(context), asks or name)


for _name, _text, _asks in (
    ("status", "State, version, counts, alarms.", ""),
    ("peers", "Fellow brokers.", ""),
    ("clients", "Who is connected, in which state.", ""),
    ("services", "Workers, idle and queued, of each service.", ""),
    ("config", "The configuration in force.", ""),
    ("enable", "Let a disabled broker serve again.", ""),
    ("disable", "Say farewell to everybody and be silent.", ""),
    ("reload", "Read the configuration file again.", "reload_config"),
):
    _plain_command(_name, _text, _asks)


@main.command()
@click.argument("action", required=False, type=click.Choice(["clear"]))
@click.argument("key", required=False, default="")
@click.pass_context
def errors(context: click.Context, action: str | None, key: str) -> None:
    """Peers that fail, and those that are ignored for it; `errors clear [KEY]` forgives them."""
    _run(_settings(context), "clear_errors" if action else "errors", key)


@main.command()
@click.argument("identity")
@click.option(
    "--out", type=click.Path(file_okay=False), default=".", show_default=True, help="The folder; made 0700 if missing."
)
def keygen(identity: str, out: str) -> None:
    """Make a CURVE pair: IDENTITY.secret for its owner, IDENTITY.pub.key for the folders of authorized keys."""
    path = Path(out) / f"{identity}.secret"
    try:
        Path(out).mkdir(mode=0o700, parents=True, exist_ok=True)
        pair = Pair(*new_keys())
        public = write_pair(path, pair, identity)
    except OSError as e:
        raise SystemExit(_complain(f"{path}: {e.strerror}")) from e
    click.echo(f"{path}: keep it\n{public}: give it to those who should let {identity} in\npublic key {pair.public}")


@main.command()
def password() -> None:
    """Turn a password into the record that `management` of a configuration holds."""
    if sys.stdin.isatty():
        word = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        word = sys.stdin.readline().rstrip("\n")
    if not word:
        raise SystemExit(_complain("an empty password"))
    salt, (n, r, p) = os.urandom(16), SCRYPT
    key = hashlib.scrypt(word.encode(), salt=salt, n=n, r=r, p=p)
    click.echo(f"scrypt${n}${r}${p}${salt.hex()}${key.hex()}")
