"""Define the `helen` command. Each subcommand is imported when it is called, so that `helen --help` is quick."""

from __future__ import annotations

import importlib
from typing import Any

import click

from groundwork.process_list import hide_values

# name -> (module, attribute, one line for --help)
COMMANDS = {
    "ack": ("helen.cli.downtimes", "ack", "Acknowledge a problem: no alerts of it until it changes."),
    "agent-wheel": ("helen.cli.local.agent_wheel", "agent_wheel", "Make a wheel with the agent alone, to push."),
    "agents": ("helen.cli.shown.agents", "agents", "List the agents, connected or not."),
    "apply": ("helen.cli.declared.commands", "apply", "Bring Helen to the state that a folder declares, after a plan."),
    "assign": ("helen.cli.assign", "assign", "Show, add or remove assignments: which check runs where."),
    "audit": ("helen.cli.audit", "audit", "List the changes that operators, tokens and agents have made."),
    "backup": ("helen.cli.backup", "backup", "Copy all that Helen knows into one file, while it runs."),
    "certificate": ("helen.cli.access.identity", "certificate", "Make an identity for an agent without a token."),
    "check": ("helen.cli.check", "check", "Write a new check; try it on agents without publishing it."),
    "checks": ("helen.cli.sets.commands", "checks", "List the published checks; add sets of checks from elsewhere."),
    "demo": ("helen.cli.local.demo", "demo", "Show a small fleet on this machine, for a minute."),
    "discover": ("helen.cli.discovery.command", "discover", "Find what no check looks at, and propose checks."),
    "downtime": ("helen.cli.downtimes", "downtime", "Plan a downtime: no alerts, and counted as planned in reports."),
    "events": ("helen.cli.events", "events", "Follow states, decisions, downtimes and agents as they change."),
    "drain": ("helen.cli.drain", "drain", "Send this Helen's agents to other Helens, before it is stopped."),
    "explain": ("helen.cli.explain", "explain", "Explain a state: why, who was told, when it runs, what changed."),
    "export": ("helen.cli.declared.commands", "export", "Write all that is declared into a folder, for `helen apply`."),
    "forwards": ("helen.cli.forwards.commands", "forwards", "List what is sent to other systems, and how far it is."),
    "import": ("helen.cli.local.importing", "import_", "Make a folder for `helen apply` of another monitoring system."),
    "jobs": ("helen.cli.jobs", "jobs", "List, follow, cancel or retry jobs: queries that can wait."),
    "keys": ("helen.cli.keys", "keys", "Show or change the keys that sign check sets."),
    "label": ("helen.cli.label", "label", "Give an agent labels, or take them."),
    "mcp": ("helen.cli.mcp.command", "mcp", "Serve this Helen to programs that speak the Model Context Protocol."),
    "mesh": ("helen.cli.targets", "mesh", "Show agents that check each other, and who sees whom."),
    "notify": ("helen.cli.notify", "notify", "Test a channel; list, retry or drop messages that failed."),
    "open": ("helen.cli.access.open", "open_pages", "Open Helen's pages in a browser, by a link that is good once."),
    "passive": ("helen.cli.passive", "passive", "Declare checks that report from outside, and print their keys."),
    "ping": ("helen.cli.passive", "ping", "Make URLs that a job calls when it is done."),
    "pipeline": ("helen.cli.pipeline", "pipeline", "Run the history on Spark: take it in, report, ask in SQL."),
    "push": ("helen.cli.push", "push", "Validate, sign and publish checks."),
    "quickstart": ("helen.cli.local.quickstart", "quickstart", "Start server and agent on this machine, in one go."),
    "renewals": (
        "helen.cli.access.renewals",
        "renewals",
        "List certificates that end; bring agents back that were away.",
    ),
    "repl": ("helen.cli.repl", "repl", "Run Lua, line by line, on an agent."),
    "restore": ("helen.cli.backup", "restore", "Make a state directory of a backup."),
    "revoke": ("helen.cli.access.identity", "revoke", "Shut an agent out."),
    "rollout": ("helen.cli.rollout", "rollout", "Show a push on its way through rings; pause it, take it back."),
    "route": ("helen.cli.route", "route", "Show which channels an alert would go to, rule by rule."),
    "run": ("helen.cli.run", "run", "Run a check now on agents."),
    "shell": ("helen.cli.shell", "shell", "List and play recordings of sessions on an agent's machine."),
    "sign": ("helen.cli.sign", "sign", "Sign a set in a file, as a second person; no Helen is needed."),
    "silence": ("helen.cli.downtimes", "silence", "Hold back alerts for a time, once or each night."),
    "ssh": ("helen.cli.ssh", "ssh", "Log in on an agent's machine, by the connection that it holds."),
    "status": ("helen.cli.shown.status", "status", "Show the state of everything, of an agent, or of a check on it."),
    "targets": ("helen.cli.targets", "targets", "List things without an agent, and which agents look at them."),
    "token": ("helen.cli.access.join_tokens", "token", "Print the command that makes machines agents."),
    "tokens": ("helen.cli.access.join_tokens", "tokens", "List tokens with which agents may join still; revoke one."),
    "traps": ("helen.cli.traps.command", "traps", "Receive traps of SNMP devices, and report them as results."),
    "tunnel": ("helen.cli.tunnel", "tunnel", "Join standard input and output with a program at an agent."),
    "web-token": ("helen.cli.access.web_token", "web_token", "Make, list or revoke tokens of the HTTP API."),
    "top": ("helen.cli.top.command", "top", "Show all checks, live in the terminal."),
    "zabbix": ("helen.cli.zabbix.command", "zabbix", "Take values of zabbix_sender, and report them as results."),
    "windows": ("helen.cli.downtimes", "windows", "List the downtimes and silences."),
}

# Heading in --help -> its commands, those for a beginner first; each command is under one heading.
SECTIONS = {
    "To begin": ("quickstart", "demo", "open", "token", "push"),
    "To see": ("status", "agents", "checks", "explain", "events", "top", "targets", "mesh", "windows", "jobs", "audit"),
    "To write checks and say where they run": ("check", "run", "repl", "assign", "discover", "rollout", "label"),
    "To handle problems and messages": ("ack", "downtime", "silence", "notify", "route"),
    "To admit agents and people": (
        "tokens", "revoke", "renewals", "certificate", "web-token", "keys", "sign", "agent-wheel",
    ),
    "To exchange results with other systems": ("passive", "ping", "traps", "zabbix", "forwards", "import", "mcp"),
    "To log in on machines": ("ssh", "shell", "tunnel"),
    "To operate Helen": ("apply", "export", "backup", "restore", "drain", "pipeline"),
}  # fmt: skip

OF_COMMANDS = ("--state", "--url", "--token", "--output")  # options that nearly every command has, and `helen` has not


class LazyGroup(click.Group):
    """Hold commands by name and help line, and import each when it is needed."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Take a token of the HTTP API out of the list of processes, then run the command."""
        hide_values("--token")
        return super().main(*args, **options)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options of `helen` itself; one of a command that stands before its name gets a hint."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name in OF_COMMANDS:
                said = f"{error.option_name} is an option of the commands: write it behind one,"
                raise click.UsageError(f"{said} `helen status {error.option_name} ...`", ctx) from error
            raise

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command, None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help lines of COMMANDS under their SECTIONS, without importing any command."""
        widest = max(map(len, COMMANDS))
        for heading, names in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(widest), COMMANDS[name][2]) for name in names])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["--help"], "max_content_width": 100})
@click.version_option(package_name="helen-equus", prog_name="helen")
def main() -> None:
    """Ask and direct a running Helen.

    `helen quickstart` starts one on this machine with an agent, `twistd -n helen --state DIR` starts one for a fleet.
    Commands find it by --state DIR on its own machine, and by --url and --token from elsewhere.

    Exit status: 0 fine, 1 failed, 2 wrong usage, 3 not found.
    """
