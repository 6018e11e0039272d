"""Implement `helen open`, which opens the pages of a Helen in a browser, by a link that is good once."""

from __future__ import annotations

import os
import sys
import webbrowser

import click

from groundwork.terminal import echo
from helen.cli.base.client import Client
from helen.cli.base.options import for_a_helen, output, plain, print_json
from helen.cli.base.session_link import make_link

SCOPES = ("read", "operate", "push", "admin")


@click.command("open")
@click.option("--scope", "scopes", multiple=True, type=click.Choice(SCOPES), help="Scope; repeatable (operate).")
@click.option("--on", multiple=True, metavar="PATTERN", help="Limit to agents: web-* or KEY=VALUE; repeatable.")
@click.option("--for", "lasts", metavar="DURATION", help="Time after which the session ends in any case (7d).")
@click.option("--name", metavar="WHO", help="Your name in the audit (that of your account here).")
@click.option("--print", "only_print", is_flag=True, help="Only print the link, for a browser elsewhere.")
@click.option("--kiosk", is_flag=True, help="For a screen on a wall: it looks, does nothing, and does not end idle.")
@output
@for_a_helen
def open_pages(
    client: Client, scopes: tuple[str, ...], on: tuple[str, ...], lasts: str | None, name: str | None,
    only_print: bool, kiosk: bool, as_json: bool,
) -> None:  # fmt: skip
    """Print a link to Helen's pages, and open it in a browser if there is one here. It is good once, for two minutes.

    The session has the scope `operate`, unless --scope says otherwise, and at most those of a --token. With --on it
    is limited to agents that fit one of the patterns.
    """
    made = make_link(client, scopes=scopes, lasts=lasts, name=name, kiosk=kiosk, on=on)
    if as_json:
        print_json(made)
        return
    echo(plain(made["url"]))
    if not only_print and has_browser():
        webbrowser.open(made["url"])


def has_browser() -> bool:
    """Return True where a window can be opened: a browser in this terminal would take it from its user."""
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
