"""What the commands of `helen pipeline` share: their options, how a report gets out, errors as one sentence."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from attrs import evolve
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from helen.pipeline.days import MICROS, Day, local_days, local_today, parse_day
from helen.pipeline.driver import first_line
from helen.pipeline.errors import PipelineError
from helen.pipeline.lake import Lake
from helen.pipeline.progress import progress
from helen.pipeline.shown import FORMATS, render
from helen.pipeline.spark import start_spark

Command = Callable[..., Any]


class Where:
    """Which lake, which histories, which Spark: the options that nearly all commands take."""

    def __init__(self, state: tuple[Path, ...], lake: Path | None, master: str, conf: tuple[str, ...]) -> None:
        self.states = state
        if lake is None and len(state) != 1:
            raise click.UsageError("give --lake DIR, or one --state DIR whose history/lake it is")
        self.lake = Lake(lake if lake is not None else state[0] / "history" / "lake")
        self._master = master
        wrong = [each for each in conf if "=" not in each]
        if wrong:
            raise click.UsageError(f"--conf {wrong[0]}: write NAME=VALUE")
        self._conf = dict(each.split("=", 1) for each in conf)

    @contextmanager
    def spark(self, shown: bool = True) -> Iterator[SparkSession]:
        """Starts it, and says so: it takes some seconds. `shown`: how far it is as well."""
        say("starting Spark")
        with tempfile.TemporaryDirectory(prefix="helen-spark-", ignore_cleanup_errors=True) as scratch:
            spark = start_spark("helen", self._master, self._conf, Path(scratch))
            try:
                with progress(spark) if shown else nullcontext():
                    yield spark
            finally:
                spark.stop()


def say(line: str) -> None:
    """Progress goes to stderr, so that stdout is the report alone."""
    click.echo(line, err=True)


def command(function: Command) -> Command:
    """Common options, and errors as one sentence with status 1."""

    @click.option(
        "--state",
        type=click.Path(path_type=Path),
        multiple=True,
        envvar="HELEN_STATE",
        help="State folder of a Helen, or her history folder; several for several Helens.",
    )
    @click.option("--lake", type=click.Path(path_type=Path), envvar="HELEN_LAKE", help="Default: STATE/history/lake.")
    @click.option(
        "--master",
        default="local[*]",
        show_default=True,
        envvar="HELEN_SPARK_MASTER",
        help="Where Spark runs, e.g. spark://host:7077.",
    )
    @click.option("--conf", multiple=True, help="A setting of Spark, NAME=VALUE.")
    @functools.wraps(function)
    def wrapped(state: tuple[Path, ...], lake: Path | None, master: str, conf: tuple[str, ...], **rest: Any) -> Any:
        try:
            return function(Where(state, lake, master, conf), **rest)
        except PipelineError as error:
            raise click.ClickException(str(error)) from error
        except PySparkException as error:
            raise click.ClickException(f"Spark: {first_line(error)}") from error

    return wrapped  # fmt: skip


def printed(function: Command) -> Command:
    """Adds --output and --out to a command that returns a Report."""

    @click.option("--output", type=click.Choice(FORMATS), default="text", show_default=True)
    @click.option("--out", type=click.Path(path_type=Path), help="Write to this file instead of stdout.")
    @functools.wraps(function)
    def wrapped(*args: Any, output: str, out: Path | None, **rest: Any) -> None:
        text = render(function(*args, **rest), output)
        if out is None:
            click.echo(text, nl=False)
        else:
            out.write_text(text, encoding="utf-8")

    return wrapped


def days_of(function: Command) -> Command:
    """Adds --from, --to, --zone and names of checks; the command gets the local days."""

    @click.option("--from", "first", default="yesterday", show_default=True, help="2026-11-27, today or yesterday.")
    @click.option("--to", "last", default=None, help="The last day; default: the first one.")
    @click.option("--zone", default="UTC", show_default=True, help="Whose days, e.g. Europe/Berlin.")
    @click.argument("names", nargs=-1, metavar="[AGENT[/CHECK]]...")
    @functools.wraps(function)
    def wrapped(where: Where, first: str, last: str | None, zone: str, names: tuple[str, ...], **rest: Any) -> Any:
        today = local_today(datetime.now(UTC), zone)
        begin = parse_day(first, today)
        days = until(local_days(begin, parse_day(last, today) if last else begin, zone), datetime.now(UTC))
        return function(where, days=days, zone=zone, names=names, **rest)

    return wrapped


def until(days: Sequence[Day], now: datetime) -> list[Day]:
    """Without what is still to come: today is as long as it has lasted. Raises PipelineError if nothing is left."""
    moment = round(now.timestamp() * MICROS)
    begun = [evolve(day, end=min(day.end, moment)) for day in days if day.begin < moment]
    if not begun:
        raise PipelineError(f"{days[0].date} has not begun: a report is about what has been.")
    return begun
