"""Implement `helen import`: from the files of another monitoring system to a folder for `helen apply`.

Nothing of a Helen is needed or asked.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from groundwork.atomic_write import PUBLIC, write_durably
from groundwork.counts import count
from groundwork.terminal import echo
from helen.cli.base.failures import Failed
from helen.cli.base.options import plain
from helen.importing import icinga, icinga_dump, kuma, kuma_database, nagios, nagios_objects, sensu, sensu_dump
from helen.importing.folder import files
from helen.importing.found import Found, SourceError
from helen.importing.names import host_name
from helen.importing.report import summary

PRIVATE = 0o600  # of policies: command lines may hold passwords
PROGRAMS = "/usr/lib/nagios/plugins"

READERS: dict[str, Callable[[Path, Path | None, str], Found]] = {
    "nagios": lambda source, resources, programs: nagios.convert(nagios_objects.read(source, resources), source.name),
    "icinga2": lambda source, resources, programs: icinga.convert(icinga_dump.read(source), source.name),
    "sensu": lambda source, resources, programs: sensu.convert(sensu_dump.read(source), source.name, programs),
    "kuma": lambda source, resources, programs: kuma.convert(kuma_database.read(source), source.name),
}


@click.command("import")
@click.argument("system", type=click.Choice(list(READERS)))
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="The folder to write.")
@click.option(
    "--agent",
    metavar="NAME",
    default="core",
    help="The agent beside the old core, which runs its plugins; default: core.",
)
@click.option(
    "--resources", type=click.Path(path_type=Path, dir_okay=False), help="nagios: the file that sets $USERn$."
)
@click.option(
    "--programs", metavar="DIR", default=PROGRAMS, help=f"sensu: the folder of programs; default: {PROGRAMS}."
)
def import_(system: str, source: Path, out: Path, agent: str, resources: Path | None, programs: str) -> None:
    """Make a folder for `helen apply` of what another monitoring system has in effect.

    SOURCE is the objects.cache or nagios.cfg of Nagios; a folder with what Icinga 2 answers to /v1/objects/hosts,
    services and checkcommands; the output of `sensuctl dump all`; or Uptime Kuma's kuma.db. Nothing is changed there.

    import.txt in the folder names what was not taken over, and why. Exit status 1: the source can't be read.
    """
    if host_name(agent) != agent:
        raise click.BadParameter(f"{agent!r} is no name for an agent: a-z 0-9 . _ -", param_hint="--agent")
    if out.exists() and any(out.iterdir()):
        raise Failed(f"{plain(out)} is not empty: give a new folder")
    try:
        found = READERS[system](source, resources, programs)
        made = files(found, agent)
    except SourceError as error:
        raise Failed(str(error)) from error
    _write(out, made)
    echo(f"{plain(out)}: {summary(found)}")
    for name, why in found.omitted[:20]:
        echo(f"  not {name}: {why}")
    if len(found.omitted) > 20:
        echo(f"  and {len(found.omitted) - 20} more")
    echo(f"{count(len(found.remarks), 'kind')} of differences; read {plain(out / 'import.txt')} first")


def _write(out: Path, made: dict[str, str]) -> None:
    try:
        for name, text in made.items():
            path = out / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_durably(path, text.encode("utf-8", "replace"), PRIVATE if name.startswith("policy/") else PUBLIC)
    except OSError as error:
        raise Failed(f"{error.filename or out} can't be written: {error.strerror}") from error
