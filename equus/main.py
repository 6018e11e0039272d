"""Run the command `equus`: parse flags, start the sandbox's processes, and only then import Twisted and read keys.

`equus --help` must be fast, so it imports only click. Modules of a subcommand are imported when it is called, through
`importlib`; no other file may do so.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import click

from groundwork.process_list import hide_values, without_values
from groundwork.terminal import echo

# The module and the attribute of each subcommand; imported when it is called.
COMMANDS = {
    "run": ("equus.authoring.commands", "run"),
    "test": ("equus.authoring.commands", "test"),
    "lint": ("equus.authoring.commands", "lint"),
    "policy": ("equus.authoring.policy_commands", "policy"),
    "lua-meta": ("equus.authoring.lua_meta.command", "lua_meta"),
}
SUMMARIES = {
    "run": "Run one check here, no server; exit status is the state.",
    "test": "Run the tests that lie beside checks.",
    "lint": "Look for mistakes in checks.",
    "policy": "Show or check the host's policy.",
    "lua-meta": "Write definitions for editors: host.*, tables of checks.",
}


class LazyGroup(click.Group):
    """Groups commands, and imports one only when it is called."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Take a join token out of the list of processes, then run the command."""
        hide_values("--join")
        return super().main(*args, **options)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command, or None if there is none of this name."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name]
        return getattr(importlib.import_module(module), attribute)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands for --help, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(SUMMARIES.items()))


@click.group(cls=LazyGroup, invoke_without_command=True, context_settings={"max_content_width": 100})
@click.option("--server", multiple=True, metavar="HOST:PORT", help="Address of a Helen; repeat it for others to try.")
@click.option("--state", metavar="DIR", help="Folder for this agent's identity, checks and results.")
@click.option("--join", metavar="TOKEN", help="Enrol with a token of `helen token`; -: it comes on standard input.")
@click.option("--join-file", metavar="FILE", help="A file with the token, which no list of processes shows.")
@click.option("--certificate", metavar="FILE", help="The agent's certificate, with --key and --ca, instead of --join.")
@click.option("--key", metavar="FILE", help="Its private key; readable by its owner alone.")
@click.option("--ca", metavar="FILE", help="The CAs that Helen's certificate may come from.")
@click.option("--checks", metavar="DIR", help="Run the .lua files of this folder instead of those that Helen sends.")
@click.option("--label", multiple=True, metavar="KEY=VALUE", help="A label by which Helen chooses agents; repeatable.")
@click.option("--labels-from", metavar="FILE|COMMAND", help="A file with labels, or a program that prints them.")
@click.option("--policy", metavar="FILE", help="Policy: what checks may do here; default /etc/equus/policy.toml.")
@click.option("--secrets", metavar="FILE", help="Passwords that arguments name; default /etc/equus/secrets.toml.")
@click.option("--name", metavar="NAME", help="The name to enrol under; default: this host's.")
@click.option("--nrpe", metavar="ADDRESS:PORT", help="Answer check_nrpe from the newest results; see docs/agent.rst.")
@click.option("--nrpe-certificate", metavar="FILE", help="Its certificate; with --nrpe-key and --nrpe-ca, of clients.")
@click.option("--nrpe-key", metavar="FILE", help="Its private key.")
@click.option("--nrpe-ca", metavar="FILE", help="The CAs that certificates of clients may come from.")
@click.option("--config", metavar="FILE", help="A TOML file with these settings.")
@click.option("--once", is_flag=True, default=None, help="Enrol and connect once, say whether it worked, and end.")
@click.option("--insecure-plaintext", is_flag=True, default=None, help="No TLS. For experiments on one machine.")
@click.option("--log-level", metavar="LEVEL", help="debug, info, warn, error or critical; default info.")
@click.version_option(package_name="helen-equus", prog_name="equus")
@click.pass_context
def main(ctx: click.Context, **flags: Any) -> None:
    """Run the monitoring agent: keep one connection to Helen and run checks for it.

    Flags win over the environment (EQUUS_SERVER, EQUUS_STATE, ...), the environment over --config.
    """
    given = {name.replace("_", "-"): value for name, value in flags.items() if value not in (None, ())}
    if ctx.invoked_subcommand is not None:
        if given:
            raise misplaced_flag(ctx, ctx.invoked_subcommand, next(iter(given)))
        return
    ctx.exit(run_agent(given))


def misplaced_flag(ctx: click.Context, subcommand: str, flag: str) -> click.UsageError:
    """Return the error for a flag of the agent before a subcommand, which would be passed over in silence.

    Its exit status is 3 for `run`: a monitoring core would take 2 for critical.
    """
    text = f"--{flag} before `{subcommand}` is a flag of the agent, which is not started"
    command = LazyGroup.get_command(main, ctx, subcommand)  # type: ignore[arg-type]
    if command is not None and any(f"--{flag}" in parameter.opts for parameter in command.params):
        text += f"; write it behind: equus {subcommand} --{flag} ..."
    error = click.UsageError(text, ctx)
    error.exit_code = 3 if subcommand == "run" else 2  # type: ignore[misc]  # of this one error, not of its class
    return error


def run_agent(given: dict[str, Any]) -> int:
    """Run an agent with these flags, given by name without dashes, and return its exit status."""
    settings_module = importlib.import_module("equus.settings")
    policy_module = importlib.import_module("equus.policy.policy")
    lock = importlib.import_module("equus.state_lock")
    try:
        settings = settings_module.gather(given, os.environ, Path.home(), os.geteuid() == 0)
    except settings_module.SettingsError as error:
        return print_error(2, error)
    again = without_values(sys.argv[1:], "--join")
    if given.get("join"):  # what takes the place of this process gets it where other users can't read it
        os.environ["EQUUS_JOIN"] = settings.join or ""
    try:
        policy = policy_module.Policy.load(settings.policy)
        lock.prepare(settings.state)
        if (settings.state / "upgrade").is_dir():
            launcher = importlib.import_module("equus.code.launcher")
            launcher.start_current_version(settings.state, policy.upgrade, again)
        lock.take(settings.state)
    except (policy_module.PolicyError, lock.StateInUse) as error:
        return print_error(1, error)
    processes_module = importlib.import_module("equus.sandbox.processes")
    own = (settings.state / "agent.pem", *filter(None, [settings.certificate]))
    processes = processes_module.Processes.start(  # before Twisted, threads and keys
        settings.policy,
        settings.state,
        certificates=() if settings.insecure_plaintext else own,
        private=settings.own_files,
    )
    gc.disable()  # modules that are being loaded make no garbage
    tap = importlib.import_module("equus.tap")
    gc.freeze()
    gc.enable()
    try:
        status, successor = tap.run(settings, processes, policy)
    except tap.StartRefused as error:
        status, successor = print_error(1, error), False
    finally:
        processes.close()
    if isinstance(successor, str):
        importlib.import_module("equus.code.launcher").try_out(settings.state, successor, again)
    elif successor:
        importlib.import_module("equus.code.launcher").restart(again)
    return exit_at_once(status)


def exit_at_once(status: int) -> NoReturn:
    """End the process without the interpreter's own cleanup.

    To free each module, which the kernel frees anyway, takes a third of a second of CPU. On a busy machine that is the
    difference between an end within the promised 5 s and being killed.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(status)


def print_error(status: int, error: Exception) -> int:
    """Print an error to stderr, and return `status`."""
    echo(f"equus: {error}", err=True)
    return status


if __name__ == "__main__":
    main(prog_name="equus")
