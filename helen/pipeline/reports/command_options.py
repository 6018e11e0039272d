"""Provides the common parts of `helen pipeline`'s commands: options, printing of reports, errors as one sentence."""

from __future__ import annotations

import functools
import io
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import click
import pyarrow as pa
from attrs import evolve
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from groundwork.atomic_write import temporary_name
from groundwork.read_errors import advice_for
from groundwork.terminal import echo
from helen.pipeline.engine import AUTO, ENGINES, SETTING
from helen.pipeline.lake.errors import PipelineError
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.local_days import MICROS, Day, local_days, local_today, parse_day
from helen.pipeline.lake.read_errors import PROGRAM, READ_ERRORS, first_line, with_advice
from helen.pipeline.lake.stores import check_place, is_stored, url_of
from helen.pipeline.progress import progress
from helen.pipeline.reports.report_formats import FORMATS, Report, pieces
from helen.pipeline.spark import start_spark

Command = Callable[..., Any]
PRINTED_AT_ONCE = 1 << 16  # characters
SPARK_ERRORS = (PySparkException, Py4JError)  # of a task that fails comes the latter, with pages of Java


class CommonOptions:
    """Holds the options that nearly all commands take: the lake, the histories, and the Spark to work with."""

    def __init__(
        self, state: tuple[Path, ...], lake: Path | None, master: str, engine: str, conf: tuple[str, ...]
    ) -> None:
        self.states = state
        if lake is None and len(state) != 1:
            raise click.UsageError("give --lake DIR, or one --state DIR whose history/lake it is")
        if lake is not None:
            check_place(lake)
        self.lake = Lake(lake if lake is not None else state[0] / "history" / "lake")
        self._master = master
        wrong = [each for each in conf if "=" not in each]
        if wrong:
            raise click.UsageError(f"--conf {wrong[0]}: write NAME=VALUE")
        given = dict(each.split("=", 1) for each in conf)
        check_no_connect(master, given, os.environ)
        self._conf = {SETTING: engine, **given}

    @contextmanager
    def spark(self, shown: bool = True) -> Iterator[SparkSession]:
        """Start Spark, and say so, because it takes some seconds. `shown`: print the progress of its tasks, too."""
        say("starting Spark")
        with tempfile.TemporaryDirectory(prefix="helen-spark-", ignore_cleanup_errors=True) as scratch:
            spark = start_spark("helen", self._master, self._conf, Path(scratch))
            try:
                with progress(spark) if shown else nullcontext():
                    yield spark
            finally:
                spark.stop()


def check_no_connect(master: str, conf: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Refuse Spark Connect, given in any way that pyspark takes. Raises UsageError, with what to do instead."""
    for way in _ways_to_connect(master, conf, environment):
        raise click.UsageError(
            f"{way}: the pipeline is Spark's driver, and a client of Spark Connect has none (no"
            " sparkContext; foreachBatch runs in the server, which has neither the lake's lock nor its log). Give the"
            " cluster itself: spark://HOST:7077, yarn or k8s://...; docs/pipeline.rst says how questions go through"
            " Connect."
        )


def _ways_to_connect(master: str, conf: Mapping[str, str], environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the options and variables with which pyspark makes a client of Connect instead of a driver."""
    if master.startswith("sc://"):
        yield f"--master {master}"
    for name, value in conf.items():
        if (
            name == "spark.remote"
            or (name == "spark.master" and value.startswith("sc://"))
            or (name == "spark.api.mode" and value.lower() == "connect")
        ):
            yield f"--conf {name}={value}"
    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        if name in environment:  # an empty one counts, too
            yield f"{name}={environment[name]} in the environment"
    mode = environment.get("SPARK_API_MODE", "")
    if mode.lower() == "connect" and "spark.api.mode" not in conf:
        yield f"SPARK_API_MODE={mode} in the environment"


def say(line: str) -> None:
    """Print a line of progress to stderr, so that stdout is the report alone."""
    echo(line, err=True)


def command(function: Command) -> Command:
    """Add the common options to a command. It raises ClickException, one sentence and status 1, for known errors."""

    @click.option(
        "--state",
        type=click.Path(path_type=Path),
        multiple=True,
        envvar="HELEN_STATE",
        help="State folder of a Helen, or its history folder; several for several Helens.",
    )
    @click.option(
        "--lake",
        type=click.Path(path_type=Path),
        envvar="HELEN_LAKE",
        help="A folder, or a place in a store: s3://, gs://, abfs://. Default: STATE/history/lake.",
    )
    @click.option(
        "--master",
        default="local[*]",
        show_default=True,
        envvar="HELEN_SPARK_MASTER",
        help="Where Spark runs, e.g. spark://host:7077.",
    )
    @click.option(
        "--engine",
        type=click.Choice(ENGINES),
        default=AUTO,
        show_default=True,
        help="spark: hand out what is little, too. On a cluster that is always so.",
    )
    @click.option("--conf", multiple=True, help="A setting of Spark, NAME=VALUE.")
    @functools.wraps(function)
    def wrapped(
        state: tuple[Path, ...], lake: Path | None, master: str, engine: str, conf: tuple[str, ...], **rest: Any
    ) -> Any:
        """Build the CommonOptions, and turn known errors into a sentence."""
        try:
            return function(CommonOptions(state, lake, master, engine, conf), **rest)
        except PipelineError as error:
            raise click.ClickException(str(error)) from error
        except SPARK_ERRORS as error:
            raise click.ClickException(advised(f"Spark: {first_line(error)}", error)) from error
        except READ_ERRORS as error:
            is_lake_stored = lake is not None and is_stored(lake)
            if is_damage(error):
                raise click.ClickException(
                    f"{first_line(error)} `helen pipeline verify` names each such file."
                ) from error
            if not is_lake_stored and not advice_for(error, PROGRAM):
                raise
            text = f"{url_of(lake)}: {first_line(error)}" if lake and is_lake_stored else first_line(error)
            raise click.ClickException(with_advice(text, error)) from error

    return wrapped  # fmt: skip


def write_report(report: Report, output: str, out: Path | None) -> None:
    """Print a report, or write it to a file, as it is made: its rows may be more than there is memory for."""
    if out is not None:
        with whole_file(out) as file:
            file.writelines(pieces(report, output))
        return
    held = io.StringIO()
    for piece in pieces(report, output, only_ascii=sys.stdout.isatty()):
        held.write(piece)
        if held.tell() > PRINTED_AT_ONCE:
            echo(held.getvalue(), nl=False)
            held = io.StringIO()
    echo(held.getvalue(), nl=False)


def is_damage(error: BaseException) -> bool:
    """Return True if a file of the lake is cut or corrupt: Arrow says so at once, when it opens one."""
    return isinstance(error, pa.ArrowInvalid) and str(error).startswith("Could not open Parquet input source")


def advised(text: str, error: BaseException) -> str:
    """Return a text on an error of Spark, with what to do about it. One that quotes a statement gets no advice."""
    return text if isinstance(error, AnalysisException) else with_advice(text, error)


@contextmanager
def whole_path(path: Path) -> Iterator[Path]:
    """Give the path under which to write a file that takes the place of an older one only once it is whole.

    So a report that ends in an error, on a full disk say, leaves the older file as it was. A path that is no regular
    file, such as a pipe, is written to as it is. Raises PipelineError, which names the path that was given.
    """
    place = path.resolve()
    is_direct = place.exists() and not place.is_file()
    coming = place if is_direct else temporary_name(place)
    try:
        yield coming
        if place.is_file():
            coming.chmod(stat.S_IMODE(place.stat().st_mode))
        if not is_direct:
            coming.replace(place)
    except OSError as error:
        if error.filename not in (None, str(coming)):  # of what is read for the report
            raise
        raise PipelineError(f"{path} can't be written: {error.strerror}") from error
    finally:
        if not is_direct:
            coming.unlink(missing_ok=True)


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """Open a file for text that takes the place of an older one only once it is whole. Raises PipelineError."""
    with whole_path(path) as coming, coming.open("w", encoding="utf-8") as file:
        yield file


def printed(function: Command) -> Command:
    """Add --output and --out to a command that returns a Report."""

    @click.option("--output", type=click.Choice(FORMATS), default="text", show_default=True)
    @click.option("--out", type=click.Path(path_type=Path), help="Write to this file instead of stdout.")
    @functools.wraps(function)
    def wrapped(*args: Any, output: str, out: Path | None, **rest: Any) -> None:
        """Print the report, or write it to a file."""
        write_report(function(*args, **rest), output, out)

    return wrapped


def days_of(function: Command) -> Command:
    """Add --from, --to, --zone and names of checks to a command, which gets the local days."""

    @click.option("--from", "first", default="yesterday", show_default=True, help="2026-11-27, today or yesterday.")
    @click.option("--to", "last", default=None, help="The last day; default: the first one.")
    @click.option("--zone", default="UTC", show_default=True, help="Whose days, e.g. Europe/Berlin.")
    @click.argument("names", nargs=-1, metavar="[AGENT[/CHECK]]...")
    @functools.wraps(function)
    def wrapped(
        common: CommonOptions, first: str, last: str | None, zone: str, names: tuple[str, ...], **rest: Any
    ) -> Any:
        """Turn the options into local days."""
        today = local_today(datetime.now(UTC), zone)
        begin = parse_day(first, today)
        days = until(local_days(begin, parse_day(last, today) if last else begin, zone), datetime.now(UTC))
        return function(common, days=days, zone=zone, names=names, **rest)

    return wrapped


def until(days: Sequence[Day], now: datetime) -> list[Day]:
    """Return the days up to `now`: today is as long as it has lasted. Raises PipelineError if none has begun."""
    moment = round(now.timestamp() * MICROS)
    begun = [evolve(day, end=min(day.end, moment)) for day in days if day.begin < moment]
    if not begun:
        raise PipelineError(f"{days[0].date} has not begun: a report is about the past.")
    return begun
