"""Implement `helen jobs`, which lists and steers the jobs that `helen run --wait-for-offline` makes."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

import click

from groundwork.counts import count
from groundwork.terminal import echo
from helen.cli.base.client import Client
from helen.cli.base.options import for_a_helen, output, plain, print_json, table
from helen.cli.run import conclude
from helen.cli.run import follow as follow_lines

NAMED = 3  # agents that a line names


@click.group()
def jobs() -> None:
    """List, follow, cancel or retry jobs: queries that survive a restart of Helen and wait for agents that are away.

    They are tasks of ZeroTask: Helen has to run with --embed-zerotask or --zerotask.
    """


def path_of(job_id: str, what: str = "") -> str:
    return f"/api/v1/jobs/{quote(job_id, safe='')}{what}"


@jobs.command("list")
@output
@for_a_helen
def list_jobs(client: Client, as_json: bool) -> None:
    """List the jobs, the newest first. STATE has the outcomes of the targets so far."""
    found = client.get("/api/v1/jobs")["jobs"]
    if as_json:
        print_json({"jobs": found})
        return
    rows = [[job["id"], when(job["submitted"]), what(job), " ".join(job["on"]), said(job)] for job in found]
    table(["JOB", "ASKED", "CHECK", "ON", "STATE"], rows)


@jobs.command()
@click.argument("job_id", metavar="JOB")
@output
@for_a_helen
def follow(client: Client, job_id: str, as_json: bool) -> None:
    """Show each outcome, until the job is over. Exit status as of `helen run`."""
    job = client.get(path_of(job_id))
    conclude(client, job["check"], *follow_lines(client, job_id, as_json), as_json)


@jobs.command()
@click.argument("job_id", metavar="JOB")
@output
@for_a_helen
def cancel(client: Client, job_id: str, as_json: bool) -> None:
    """Cancel a job. Agents that run it are told to give up, the others are not asked.

    Exit status 0: it is cancelled. 1: it had ended before.
    """
    job = client.post(path_of(job_id, "/cancel"))
    print_json(job) if as_json else echo(f"{job['id']}: {said(job)}")
    raise SystemExit(0 if job["state"] == "cancelled" else 1)


@jobs.command()
@click.argument("job_id", metavar="JOB")
@output
@for_a_helen
def retry(client: Client, job_id: str, as_json: bool) -> None:
    """Ask the agents that have not answered again. A new job does it; its id is printed."""
    job = client.post(path_of(job_id, "/retry"))
    if as_json:
        print_json(job)
    else:
        echo(f"job {job['id']} asks {count(len(job['targets']), 'agent')}: `helen jobs follow {job['id']}`")


def what(job: dict[str, Any]) -> str:
    """Return the check of a job, with the hash of its code if it is one-off code."""
    return plain(job["check"] if job["code"] is None else f"{job['check']} ({job['code'][:12]})")


def said(job: dict[str, Any]) -> str:
    """Return state and outcomes of a job as text: `running: 3 answered, 1 open; waits for web-1`."""
    counts = ", ".join(f"{count} {word}" for word, count in job["counts"].items() if count)
    return plain(f"{job['state']}: {counts}{_waits(job)}")


def _waits(job: dict[str, Any]) -> str:
    """Return the agents that a job waits for, a few of them by name; an earlier Helen does not say."""
    names, count = job.get("waits_for", [])[:NAMED], job.get("waits_for_count", 0)
    if job["state"] == "queued":
        return "; waits for ZeroTask to hand it out"
    more = f" and {count - len(names)} more" if count > len(names) else ""
    return f"; waits for {', '.join(names)}{more}" if names else ""


def when(unix: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(unix))
