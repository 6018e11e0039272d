"""Implement `helen discover`: what there is on agents' hosts and nothing looks at, as a plan for assignments.toml."""

from __future__ import annotations

from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path
from typing import Any

import click
from attrs import frozen

from groundwork.counts import count
from groundwork.terminal import echo
from helen.assignments.assignments_text import read
from helen.assignments.schedule import Assignments, AssignmentsError, CheckTable, schedule
from helen.cli.assigned_values import tables_of
from helen.cli.base.client import Client
from helen.cli.base.declared_files import DOCUMENTS, Declared
from helen.cli.base.failures import Failed
from helen.cli.base.one_off_source import body_of, spelled_out
from helen.cli.base.options import for_a_helen, output, plain, print_json
from helen.cli.base.private_key import read_key
from helen.cli.declared.plan import CHANGES, Plan, carry_out, confirm, rehearse, show, shown
from helen.cli.declared.plan_steps import document_change
from helen.cli.run import PATIENCE, read_timeout
from helen.discovery import answers
from helen.discovery.entries import Proposed, can_be_named, with_entries
from helen.discovery.known import DAEMONS
from helen.discovery.proposals import propose
from helen.discovery.report import result_of
from helen.discovery.watched import Schedule

CHECK, FILE = "discover", "assignments.toml"
MOST_WHY = 400  # characters of a reason, which an agent may have sent


@frozen
class Looked:
    """Holds the answer of one agent: outcome, number of findings, proposals, notes; `why` if there is no answer."""

    agent: str
    outcome: str
    why: str = ""
    found: int = 0
    proposed: Proposed | None = None
    notes: tuple[str, ...] = ()

    @property
    def unwatched(self) -> int:
        """Return the number of findings that no check looks at, and one could."""
        return len(self.proposed.proposals) if self.proposed is not None else 0

    def to_json(self) -> dict[str, Any]:
        """Return `agent`, `outcome`, `why`, `found`, `unwatched`, `proposals` and `notes`."""
        listed = self.proposed.proposals if self.proposed is not None else ()
        proposals = [{"check": p.check, "id": p.id, "args": dict(p.args), "what": p.what} for p in listed]
        counts = {"found": self.found, "unwatched": self.unwatched}
        return {"agent": self.agent, "outcome": self.outcome, "why": self.why, **counts,
                "proposals": proposals, "notes": list(self.notes)}  # fmt: skip


@click.command()
@click.option(
    "--on", metavar="AGENTS", multiple=True, default=("*",), help="A pattern (web*) or a label (role=web); else all."
)
@click.option("--check", "only", multiple=True, metavar="PATTERN", help="Propose these checks alone, such as tcp.")
@click.option(
    "--timeout", metavar="DURATION", default="60s", show_default=True, help="Longest time that an answer may take."
)
@click.option(
    "--key", "keys", type=click.Path(path_type=Path), multiple=True,
    help="Sign with this private key, which Helen doesn't hold; repeat it where two must sign.",
)  # fmt: skip
@click.option("--report", metavar="HOST/CHECK", help="Give the number to Helen as a result of this passive check.")
@click.option("--accept", is_flag=True, help="Put the proposals into force, after a question.")
@click.option("--yes", is_flag=True, help="With --accept: do not ask.")
@output
@for_a_helen
def discover(
    client: Client, on: tuple[str, ...], only: tuple[str, ...], timeout: str, keys: tuple[Path, ...],
    report: str | None, accept: bool, yes: bool, as_json: bool,
) -> None:  # fmt: skip
    """Find what there is on agents' hosts and no check looks at, and propose checks for it.

    Nothing is changed without --accept. Exit status 0: nothing is left to propose, or it is accepted. 1: it failed, it
    was not confirmed, or some agents have not answered. 2: there are proposals. 3: there is no such agent.
    """
    if yes and not accept:
        raise click.UsageError("--yes answers the question of --accept, which is missing")
    if report is not None and (accept or only or not all(report.partition("/"))):
        raise click.UsageError("--report HOST/CHECK is for the number of all findings: without --accept and --check")
    targets = ask(client, on, [read_key(key) for key in keys], timeout)
    looked = look(client, targets, only)
    current, tag = client.get_tagged(DOCUMENTS[FILE])
    plan = plan_of(client, looked, current["text"], tag)
    warnings = [line for change in plan.changes for line in rehearse(change)]
    document = {"agents": [each.to_json() for each in looked], "unwatched": sum(each.unwatched for each in looked)}
    document |= shown(plan, warnings)
    if not as_json:
        print_found(looked)
        show(plan, warnings)
    if report is not None:
        give(client, looked, report)
    if accept and plan.changes:
        if not yes:
            confirm(plan, "Give --yes, or leave out --accept to see the plan")
        document |= {"said": [line for change in plan.changes for line in carry_out(change, as_json)]}
    if as_json:
        print_json(document)
    if any(each.outcome != "answered" for each in looked):
        raise SystemExit(1)
    raise SystemExit(CHANGES if plan.changes and not accept else 0)


def ask(client: Client, on: tuple[str, ...], keys: list[Any], timeout: str) -> list[dict[str, Any]]:
    """Return the outcome of each agent that was asked; raises Failed if some are missing."""
    patience = read_timeout(timeout) + PATIENCE
    source = {f"{CHECK}.lua": files("helen.discovery").joinpath("discover.lua").read_bytes()}
    args, named = {"daemons": sorted(DAEMONS)}, spelled_out(client, on) if keys else list(on)
    body = body_of(CHECK, source, args, named, keys) | {"timeout": timeout}
    targets, wanted = [], 0
    for line in client.stream("/api/v1/once", body, patience):
        if "agent" in line:
            targets.append(line)
        else:
            wanted = line["targets"]
    if len(targets) < wanted:
        raise Failed(f"the outcomes of {wanted - len(targets)} of {count(wanted, 'agent')} are missing: ask again")
    return sorted(targets, key=lambda target: str(target["agent"]))


def look(client: Client, targets: list[dict[str, Any]], only: tuple[str, ...]) -> list[Looked]:
    """Read the answers of agents, and compare them with what each runs. Raises Failed if assignments have a fault."""
    try:
        assignments = read(client.get(DOCUMENTS[FILE])["text"])
    except AssignmentsError as error:
        raise Failed(f"{FILE} is not used, mend it first: {error}") from error
    tables = tables_of(client.get("/api/v1/checks")["checks"])
    known = {each["name"]: each["labels"] for each in client.get("/api/v1/agents")["agents"]}
    return [look_at(target, assignments, tables, known.get(target["agent"]), only) for target in targets]


def look_at(
    target: dict[str, Any], assignments: Assignments, tables: dict[str, CheckTable], labels: dict[str, str] | None,
    only: tuple[str, ...],
) -> Looked:  # fmt: skip
    """Return what came of one agent. `labels`: those by which entries choose it; None for one that is not known."""
    agent, result = target["agent"], target["result"] or {}
    if target["outcome"] != "answered":
        return Looked(agent, target["outcome"], (target.get("why") or "")[:MOST_WHY])
    if labels is None or not can_be_named(agent):
        return Looked(agent, "failed", "assignments can't name this agent alone")
    if result.get("status") != "ok":
        why = str(result.get("summary") or result.get("reason") or "it gave no reason")
        return Looked(agent, "failed", why[:MOST_WHY])
    try:
        findings = answers.read(result.get("summary"))
    except answers.NoAnswer as error:
        return Looked(agent, "failed", str(error))
    running = schedule(assignments, tables, agent, labels)
    found, more = propose(findings, Schedule(agent, running, tables), tables)
    chosen = [each for each in found if not only or any(fnmatchcase(each.check, pattern) for pattern in only)]
    is_default = assignments.default_set and not any(entry.covers(agent, labels) for entry in assignments.entries)
    notes = [*findings.notes]
    notes += (
        [f"left out, since no check could use it: {count(findings.left_out, 'finding')}"] if findings.left_out else []
    )
    notes += [f"{more} more proposals are left out: accept these first"] if more else []
    proposed = Proposed(agent, chosen, has_default_set=is_default)
    return Looked(agent, "answered", "", findings.count, proposed, tuple(notes))


def give(client: Client, looked: list[Looked], report: str) -> None:
    """Give Helen the number of findings without a check, as a result. `report`: HOST/CHECK, as passive.toml has it."""
    host, _, check = report.partition("/")
    unwatched = {each.agent: each.unwatched for each in looked if each.outcome == "answered"}
    silent = [each.agent for each in looked if each.outcome != "answered"]
    client.post("/api/v1/passive/results", result_of(host, check, unwatched, silent))


def plan_of(client: Client, looked: list[Looked], text: str, tag: str) -> Plan:
    """Return the plan that puts all proposals into force; it has no step if there are none."""
    wanted = with_entries(text, [each.proposed for each in looked if each.proposed is not None])
    if wanted == text:
        return Plan(())
    held = Declared()
    held.documents[FILE], held.tags[FILE] = text, tag
    return Plan((document_change(client, FILE, wanted, held),))


def print_found(looked: list[Looked]) -> None:
    """Print a line for each agent: how much was found, and how much of it nothing looks at; notes below."""
    for each in looked:
        if each.outcome != "answered":
            echo(f"{plain(each.agent)}: {each.outcome.upper()} {plain(each.why)}".rstrip())
            continue
        echo(f"{plain(each.agent)}: {each.found} found, {each.unwatched} without a check")
        for proposal in each.proposed.proposals if each.proposed is not None else ():
            echo(f"    {plain(proposal.what)}: {plain(proposal.check)}")
        for note in each.notes:
            echo(f"    note: {plain(note)}")
