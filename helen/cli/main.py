"""The `helen` command. Each subcommand is imported when it is called, so that `helen --help` is quick."""

from __future__ import annotations

import importlib

import click

# name -> (module, attribute, one line for --help)
COMMANDS = {
    "ack": ("helen.cli.judgement", "ack", "Take a problem over: no alerts of it until it changes."),
    "agents": ("helen.cli.show", "agents", "The agents, connected or not."),
    "apply": ("helen.cli.apply", "apply", "Bring Helen to what a folder declares, after a plan."),
    "assign": ("helen.cli.assign", "assign", "Show, check or change what runs where."),
    "audit": ("helen.cli.audit", "audit", "Who did what."),
    "certificate": ("helen.cli.identity", "certificate", "Make an identity for an agent without a token."),
    "check": ("helen.cli.check", "check", "Begin a check; try it on agents before anybody runs it."),
    "checks": ("helen.cli.show", "checks", "The published checks, and what is wrong with others."),
    "demo": ("helen.cli.demo", "demo", "A small fleet on this machine, for a minute, to see how it works."),
    "downtime": ("helen.cli.judgement", "downtime", "Planned time: no alerts, and counted as planned."),
    "events": ("helen.cli.events", "events", "What changes, as it changes."),
    "drain": ("helen.cli.drain", "drain", "Let this Helen's agents go to others, before she is stopped."),
    "explain": ("helen.cli.explain", "explain", "Why this state, why no alert, why not run, what changed."),
    "export": ("helen.cli.apply", "export", "Write what is declared into a folder, for `helen apply`."),
    "jobs": ("helen.cli.jobs", "jobs", "Questions that last: list, follow, cancel, retry."),
    "keys": ("helen.cli.keys", "keys", "Who signs check sets; change them."),
    "notify": ("helen.cli.notify", "notify", "Try a channel; what could not be delivered."),
    "passive": ("helen.cli.passive", "passive", "Results from outside: who may report, and with which key."),
    "ping": ("helen.cli.passive", "ping", "URLs that a job calls when it is done."),
    "pipeline": ("helen.cli.pipeline", "pipeline", "The history on Spark: take it in, report, ask in SQL."),
    "push": ("helen.cli.push", "push", "Validate, sign and publish checks."),
    "quickstart": ("helen.cli.quickstart", "quickstart", "Server and agent on this machine, in one go."),
    "repl": ("helen.cli.repl", "repl", "Lua, line by line, on an agent."),
    "revoke": ("helen.cli.identity", "revoke", "Shut an agent out."),
    "rollout": ("helen.cli.rollout", "rollout", "How a push goes from ring to ring; pause it, take it back."),
    "route": ("helen.cli.route", "route", "Who would be told of an alert, rule by rule."),
    "run": ("helen.cli.run", "run", "Run a check now on agents."),
    "silence": ("helen.cli.judgement", "silence", "Quiet for a time, once or each night."),
    "status": ("helen.cli.show", "status", "What Helen knows: all in all, of an agent, of a check on it."),
    "token": ("helen.cli.identity", "token", "Print the line that makes a machine an agent."),
    "web-token": ("helen.cli.web_token", "web_token", "Tokens of the HTTP API: make, list, revoke."),
    "top": ("helen.cli.top", "top", "All checks, live in the terminal."),
    "windows": ("helen.cli.judgement", "windows", "The downtimes and silences."),
}


class Lazy(click.Group):
    """A group whose commands are known by name and line, and imported when needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in sorted(COMMANDS.items())])


@click.group(cls=Lazy, context_settings={"help_option_names": ["--help"], "max_content_width": 100})
@click.version_option(package_name="helen-equus", prog_name="helen")
def main() -> None:
    """Ask and direct a running Helen. Start one with `twistd -n helen --state DIR`, or `helen quickstart`.

    Exit status: 0 fine, 1 failed, 2 usage, 3 not found.
    """
