"""Defines `helen pipeline sql`: one statement, those of a file on stdin, or one after the other at a prompt."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq

from groundwork.terminal import echo
from helen.pipeline.lake.errors import PipelineError
from helen.pipeline.lake.levels import LEVELS
from helen.pipeline.lake.read_errors import first_line
from helen.pipeline.reports.command_options import (
    SPARK_ERRORS,
    CommonOptions,
    advised,
    command,
    whole_path,
    write_report,
)
from helen.pipeline.reports.report_formats import FORMATS
from helen.pipeline.reports.sql_statements import MOST_ROWS, Answer, Questions, is_whole, statements

with contextlib.suppress(ImportError):
    import readline  # noqa: F401  `input` edits lines and keeps them once it is there

PROMPT, MORE = "helen> ", "   ..> "
PARQUET = "parquet"
GROUP_BYTES = 64 << 20


@click.command(
    "sql",
    help=f"""Ask the lake in SQL. Each table is a view; of {", ".join(LEVELS)} it has one row for each bucket.

    `.tables` lists them and `.schema TABLE` its columns. Without a STATEMENT they are read from stdin, each up to its
    semicolon: from a file, or at a prompt, where Spark is started once.""",
)
@click.argument("statement", required=False)
@click.option(
    "--limit", type=click.IntRange(0), default=MOST_ROWS, show_default=True, help="Rows of an answer; 0: all of them."
)
@click.option("--output", type=click.Choice([*FORMATS, PARQUET]), default="text", show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="Write to this file instead of stdout.")
@command
def sql_command(common: CommonOptions, statement: str | None, limit: int, output: str, out: Path | None) -> None:
    """Ask the lake in SQL; the text of --help is above, because it names the levels."""
    if output == PARQUET and out is None:
        raise click.UsageError("--output parquet needs --out FILE")
    prompt = statement is None and sys.stdin.isatty()
    given = [statement] if statement is not None else typed() if prompt else [*statements(sys.stdin.read())]
    if out is not None and (isinstance(given, Iterator) or len(given) != 1):
        raise click.UsageError("--out takes the answer to one statement")
    with contextlib.ExitStack() as stack:
        questions = Questions(common.lake, lambda: stack.enter_context(common.spark()), limit)
        for each in given:
            try:
                show(questions.ask(each), output, out)
            except (PipelineError, *SPARK_ERRORS) as error:
                if not prompt:
                    raise
                echo(advised(f"error: {first_line(error)}", error), err=True)


def show(answer: Answer, output: str, out: Path | None) -> None:
    """Print an answer, or write it to a file."""
    if output == PARQUET:
        assert out is not None
        write_parquet(answer, out)
    else:
        write_report(answer.report, output, out)


def write_parquet(answer: Answer, out: Path) -> None:
    """Write the rows with their types, GROUP_BYTES of them at a time. Raises PipelineError."""
    with whole_path(out) as coming, pq.ParquetWriter(coming, answer.schema, compression="zstd") as writer:
        held: list[pa.RecordBatch] = []
        for piece in answer.pieces():
            held.append(piece)
            if sum(each.nbytes for each in held) >= GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(held))
                held = []
        if held:
            writer.write_table(pa.Table.from_batches(held))


def typed() -> Iterator[str]:
    """Yield statements as they are typed, until Ctrl-D. Ctrl-C begins the statement anew."""
    text = ""
    while True:
        try:
            text += input(MORE if text else PROMPT) + "\n"
        except EOFError:
            echo("")
            return
        except KeyboardInterrupt:
            echo("")
            text = ""
            continue
        if is_whole(text):
            yield from statements(text)
            text = ""
        elif not text.strip():
            text = ""
