"""`helen jobs`: questions that outlive the one who asked, as `helen run --wait-for-offline` makes them."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

import click

from helen.cli.client import Client
from helen.cli.options import for_a_helen, output, plain, print_json, table
from helen.cli.run import conclude
from helen.cli.run import follow as follow_lines


@click.group()
def jobs() -> None:
    """Questions that last: they survive a restart of Helen, and wait for agents that are away.

    They are tasks of ZeroTask: Helen has to run with --embed-zerotask or --zerotask.
    """


def path_of(job_id: str, what: str = "") -> str:
    return f"/api/v1/jobs/{quote(job_id, safe='')}{what}"


@jobs.command("list")
@output
@for_a_helen
def list_jobs(client: Client, as_json: bool) -> None:
    """The newest first, with what became of their targets so far."""
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
    """What became of each target, and what is yet to come, until the job is over. Exit status as of `helen run`."""
    job = client.get(path_of(job_id))
    conclude(client, job["check"], *follow_lines(client, job_id, as_json), as_json)


@jobs.command()
@click.argument("job_id", metavar="JOB")
@output
@for_a_helen
def cancel(client: Client, job_id: str, as_json: bool) -> None:
    """End a job: agents that are asked are told to give up, the others are not asked.

    Exit status 0: it is cancelled. 1: it had ended otherwise before.
    """
    job = client.post(path_of(job_id, "/cancel"))
    print_json(job) if as_json else click.echo(f"{job['id']}: {said(job)}")
    raise SystemExit(0 if job["state"] == "cancelled" else 1)


@jobs.command()
@click.argument("job_id", metavar="JOB")
@output
@for_a_helen
def retry(client: Client, job_id: str, as_json: bool) -> None:
    """Ask those who have not answered once more, in a new job, which is named."""
    job = client.post(path_of(job_id, "/retry"))
    if as_json:
        print_json(job)
    else:
        click.echo(f"job {job['id']} asks {len(job['targets'])} agents: `helen jobs follow {job['id']}`")


def what(job: dict[str, Any]) -> str:
    """The check, and of code that is in no set which code it was."""
    return plain(job["check"] if job["code"] is None else f"{job['check']} ({job['code'][:12]})")


def said(job: dict[str, Any]) -> str:
    """`asking: 3 answered, 1 open`."""
    counts = ", ".join(f"{count} {word}" for word, count in job["counts"].items() if count)
    return plain(f"{job['state']}: {counts}")


def when(unix: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(unix))
