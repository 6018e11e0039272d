"""The `equus` command. Parses, starts the sandbox's processes, and only then brings in Twisted and keys.

Kept light: `equus --help` imports click and nothing else. So what a subcommand needs is imported when it is called,
through `importlib`; this is the one file that may do so.
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

# Each subcommand's module and attribute: imported when somebody calls it.
COMMANDS = {
    "run": ("equus.commands", "run"),
    "test": ("equus.commands", "test"),
    "lint": ("equus.commands", "lint"),
    "policy": ("equus.policy_commands", "policy"),
}
SUMMARIES = {
    "run": "Run one check here, no server; exit status is the state.",
    "test": "Run the tests that lie beside checks.",
    "lint": "Look for mistakes in checks.",
    "policy": "Show or check the host's policy.",
}


class LazyGroup(click.Group):
    """Knows its commands by name, and imports one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name]
        return getattr(importlib.import_module(module), attribute)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(SUMMARIES.items()))


@click.group(cls=LazyGroup, invoke_without_command=True, context_settings={"max_content_width": 100})
@click.option(
    "--server", multiple=True, metavar="HOST:PORT", help="Where a Helen listens; repeat it for others to try."
)
@click.option("--state", metavar="DIR", help="Where this agent keeps its identity, checks and results.")
@click.option("--join", metavar="TOKEN", help="Enrol with a token of `helen token` (or EQUUS_JOIN, EQUUS_JOIN_FILE).")
@click.option("--certificate", metavar="FILE", help="Our certificate, with --key and --ca, instead of --join.")
@click.option("--key", metavar="FILE", help="Its private key; readable by its owner alone.")
@click.option("--ca", metavar="FILE", help="The CAs that Helen's certificate may come from.")
@click.option("--checks", metavar="DIR", help="Run the .lua files of this folder instead of those that Helen sends.")
@click.option("--label", multiple=True, metavar="KEY=VALUE", help="What Helen may choose agents by; repeatable.")
@click.option("--policy", metavar="FILE", help="What checks may do here; default /etc/equus/policy.toml.")
@click.option("--secrets", metavar="FILE", help="Passwords that arguments name; default /etc/equus/secrets.toml.")
@click.option("--name", metavar="NAME", help="The name to enrol under; default: this host's.")
@click.option("--config", metavar="FILE", help="A TOML file with these settings.")
@click.option("--once", is_flag=True, default=None, help="Enrol and connect once, say whether it worked, and end.")
@click.option("--insecure-plaintext", is_flag=True, default=None, help="No TLS. For experiments on one machine.")
@click.option("--log-level", metavar="LEVEL", help="debug, info, warn, error or critical; default info.")
@click.version_option(package_name="helen-equus", prog_name="equus")
@click.pass_context
def main(ctx: click.Context, **flags: Any) -> None:
    """The monitoring agent: keeps one connection to Helen and runs checks for her.

    Flags win over the environment (EQUUS_SERVER, EQUUS_STATE, ...), the environment over --config.
    """
    if ctx.invoked_subcommand is not None:
        return
    given = {name.replace("_", "-"): value for name, value in flags.items() if value not in (None, ())}
    ctx.exit(run_agent(given))


def run_agent(given: dict[str, Any]) -> int:
    """From flags to the exit status."""
    settings_module = importlib.import_module("equus.settings")
    policy_module = importlib.import_module("equus.policy")
    lock = importlib.import_module("equus.state_lock")
    try:
        settings = settings_module.gather(given, os.environ, Path.home(), os.geteuid() == 0)
    except settings_module.SettingsError as error:
        return complain(2, error)
    try:
        policy = policy_module.Policy.load(settings.policy)
        if (settings.state / "upgrade").is_dir():
            importlib.import_module("equus.stage0").step_aside(settings.state, policy.upgrade, sys.argv[1:])
        lock.take(settings.state)
    except (policy_module.PolicyError, lock.StateInUse) as error:
        return complain(1, error)
    processes_module = importlib.import_module("equus.sandbox.processes")
    own = (settings.state / "agent.pem", *filter(None, [settings.certificate]))
    processes = processes_module.Processes.start(  # before Twisted, threads and keys
        settings.policy, settings.state, certificates=() if settings.insecure_plaintext else own
    )
    gc.disable()  # nothing that is made while modules load is garbage
    tap = importlib.import_module("equus.tap")
    gc.freeze()
    gc.enable()
    try:
        status, next_one = tap.run(settings, processes, policy)
    except tap.Refusal as error:
        status, next_one = complain(1, error), False
    finally:
        processes.close()
    if isinstance(next_one, str):
        importlib.import_module("equus.stage0").try_out(settings.state, next_one, sys.argv[1:])
    elif next_one:
        importlib.import_module("equus.stage0").restart(sys.argv[1:])
    return leave(status)


def leave(status: int) -> NoReturn:
    """End at once. To free module by module what the kernel frees anyway costs the interpreter a third of a second of
    CPU; on a busy machine that is the difference between stopping within the promised 5 s and being killed."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(status)


def complain(status: int, error: Exception) -> int:
    """A sentence, and what to return."""
    click.echo(f"equus: {error}", err=True)
    return status


if __name__ == "__main__":
    main(prog_name="equus")
