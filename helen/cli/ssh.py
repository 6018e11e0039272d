"""Implement `helen ssh`, which runs the system's `ssh` with `helen tunnel` as its way to an agent.

OpenSSH itself judges the host key: it has to be the one in a file of the caller's, where the first key of an agent is
written once somebody vouches for it. So nobody in between can show another one, and neither can a Helen that was taken
over later.
"""

from __future__ import annotations

from typing import Any

import click

from helen.cli.base.options import which_helen
from helen.cli.base.ssh_call import Which, run_ssh, ssh_options, ssh_words


@click.command(context_settings={"ignore_unknown_options": True})
@ssh_options
@click.argument("destination", metavar="[USER@]AGENT")
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@which_helen
def ssh(destination: str, words: tuple[str, ...], **which: Any) -> None:
    """Log in on the machine of AGENT with the system's ssh, by the connection that the agent holds to Helen.

    WORDS are options of ssh, and a command, as ssh takes them behind its own destination. The agent's policy must have
    [shell] (docs/shell.rst). The host key of an agent is kept when it is seen for the first time, in
    ~/.local/state/helen/known_hosts, and must be the same from then on. Helen's CA vouches for it (--state, or --ca
    with --url), or a fingerprint; without them you are asked.

    Exit status: that of ssh; 1: the host key can't be trusted, or the agent lets nobody in; 3: no agent has that name.
    """
    user, _, name = destination.rpartition("@")
    run_ssh([*ssh_words(Which(**which), user, name), *words])
