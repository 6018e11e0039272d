"""Tests SQL statements from outside: words with a dot, limits, files, standard input and the prompt."""

from __future__ import annotations

import builtins
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from helen.pipeline.commands import main
from helen.pipeline.lake.errors import PipelineError
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.schema import TABLES
from helen.pipeline.reports import command_options, sql_command
from helen.pipeline.reports.sql_statements import WHAT, Questions, columns, distinct, is_whole, statements
from helen.pipeline.reports.sql_views import CHANGES, changes, view

T = 1_790_035_200.0  # 2026-09-22 00:00:00 UTC
Say = Callable[..., Result]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, new_history: Any, take_in: Any) -> Lake:
    folder = tmp_path_factory.mktemp("sql")
    helen = new_history(folder / "helen")
    for day in (0, 2):
        helen.segment(*(helen.result(f"web{n}/disk", T + day * 86_400 + n) for n in range(5)))
    lake = Lake(folder / "lake")
    take_in(lake, helen.state)
    return lake


@pytest.fixture
def say(lake: Lake, spark: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Say]:
    """Return a function that runs the command with the Spark of the tests, and counts its starts."""

    class Kept(SimpleNamespace):
        def __getattr__(self, name: str) -> Any:
            return getattr(spark, name)

    started = []

    def start(*_: Any) -> Any:
        started.append(1)
        return Kept(stop=lambda: None)

    monkeypatch.setattr(command_options, "start_spark", start)

    def run(*words: object, stdin: str | None = None, starts: int = 1) -> Result:
        started.clear()
        done = CliRunner().invoke(main, ["sql", "--lake", str(lake.folder), *map(str, words)], input=stdin)
        assert len(started) == starts
        return done

    yield run


def test_words_with_a_dot_need_no_spark(say: Say) -> None:
    """`.tables` and `.schema` answer without Spark, and other words with a dot are refused."""
    found = say(".tables", "--output", "json", starts=0)
    rows = {row["table"]: row for row in json.loads(found.stdout)["rows"]}
    assert set(rows) == {*TABLES, *CHANGES}
    assert rows["results"] == {"table": "results", "rows": 10, "first_day": "2026-09-22", "last_day": "2026-09-24",
                               "what": WHAT["results"]}  # fmt: skip
    assert rows["m5"]["what"] == "sums of each 5 minutes, one row for each series, metric and bucket"
    assert (rows["transitions"]["rows"], rows["d1"]["first_day"]) == (None, None)
    listed = say(".schema series", "--output", "csv", starts=0)
    assert listed.stdout == "column,type\nseries,int\nagent,string\ncheck_id,string\ncheck,string\n"
    for words, sentence in ((".schema nothing", "There is no table nothing: .tables names"),
                            (".quit", ".quit is neither .tables nor .schema TABLE")):  # fmt: skip
        failed = say(words, starts=0)
        assert (failed.exit_code, sentence in failed.stderr) == (1, True)


def test_schemas_are_those_of_the_views(lake: Lake, spark: Any) -> None:
    for name in (*TABLES, *CHANGES):
        frame = view(spark, lake, name) if name in TABLES else changes(spark, lake, name)
        assert [(row["column"], row["type"]) for row in columns(lake, name)] == frame.dtypes


def test_the_limit_is_told(say: Say, lake: Lake, spark: Any) -> None:
    """An answer that is cut at the limit says so, and a limit of 0 cuts nothing."""
    for limit, rows, notes in ((3, 3, ["Only the first 3 rows: --limit gives more."]), (10, 10, []), (0, 10, [])):
        answer = Questions(lake, lambda: spark, limit).ask("select * from results")
        typed = sum(piece.num_rows for piece in answer.pieces())
        assert (typed, len(answer.report.rows), answer.report.notes) == (rows, rows, notes)
    cut = say("select agent from series order by agent", "--limit", 1)
    assert cut.stdout == "agent\nweb0\nOnly the first 1 row: --limit gives more.\n"


def test_answers_in_files(say: Say, tmp_path: Path) -> None:
    """An answer in Parquet keeps its types, and options that do not fit are refused before Spark starts."""
    out = tmp_path / "out.parquet"
    done = say("select series, time, status from results order by time", "--output", "parquet", "--out", out)
    assert (done.exit_code, done.stdout) == (0, "")
    table = pq.read_table(out)
    assert [str(kind) for kind in table.schema.types] == ["int32", "timestamp[us, tz=UTC]", "int8"]
    assert table.num_rows == 10
    for words, stdin, sentence in (
        (("select 1", "--output", "parquet"), None, "--output parquet needs --out FILE"),
        (("--out", tmp_path / "x"), "select 1; select 2", "--out takes the answer to one statement"),
    ):
        failed = say(*words, stdin=stdin, starts=0)
        assert (failed.exit_code, sentence in failed.stderr) == (2, True)


def test_columns_of_one_name(say: Say, tmp_path: Path) -> None:
    """Columns of one name get distinct names, and each value is there in each format."""
    asked = "select 1 as n, 2 as n, 3 as n_2, 4 as n"
    assert json.loads(say(asked, "--output", "json").stdout)["rows"] == [{"n": 1, "n_3": 2, "n_2": 3, "n_4": 4}]
    assert say(asked, "--output", "csv").stdout == "n,n_3,n_2,n_4\n1,2,3,4\n"
    out = tmp_path / "out.parquet"
    joined = "select * from series a join series b on a.series = b.series and a.agent = 'web3'"
    assert say(joined, "--output", "parquet", "--out", out).exit_code == 0
    assert pq.read_table(out).select(["agent", "agent_2"]).to_pylist() == [{"agent": "web3", "agent_2": "web3"}]


def test_distinct_names() -> None:
    """A name that occurs once stays, and repeated ones get the next free number."""
    assert distinct(["a", "b"]) == ["a", "b"]
    assert distinct(["n", "n", "n"]) == ["n", "n_2", "n_3"]
    assert distinct(["n", "n", "n_2", "n_2"]) == ["n", "n_3", "n_2", "n_2_2"]


def test_statements_of_stdin(say: Say) -> None:
    """Statements of standard input run in one Spark until the first that fails."""
    done = say("--output", "csv", stdin="select 1 as a; -- two;\nselect ';' as b;\n")
    assert (done.exit_code, done.stdout) == (0, "a\n1\nb\n;\n")
    failed = say(stdin="select 1 as a; select nothing; select 2 as c")
    assert (failed.exit_code, failed.stdout) == (1, "a\n1\n")
    assert "Spark: [UNRESOLVED_COLUMN" in failed.stderr


def test_the_prompt(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    """The prompt takes lines until a semicolon, tells errors and goes on; Ctrl-C begins anew and Ctrl-D ends it."""
    given: list[str | type[BaseException]] = [
        "", ".tables", "select 1", "as a;", "select", KeyboardInterrupt, "select nothing;", "select 2 as b;", EOFError,
    ]  # fmt: skip
    asked = []

    def typed(prompt: str) -> str:
        asked.append(prompt)
        line = given[len(asked) - 1]
        if isinstance(line, str):
            return line
        raise line

    monkeypatch.setattr(builtins, "input", typed)
    monkeypatch.setattr(sql_command, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    done = say()
    assert done.exit_code == 0
    shown, more = sql_command.PROMPT, sql_command.MORE
    assert asked == [shown, shown, shown, more, shown, more, shown, shown, shown]
    assert done.stdout.count("availability_daily") == 1
    assert done.stdout.endswith("a\n1\n\nb\n2\n\n")
    assert "error: [UNRESOLVED_COLUMN" in done.stderr


TEXTS: dict[str, tuple[str, list[str]]] = {
    "one without an end": ("select 1", ["select 1"]),
    "two": ("select 1; select 2;", ["select 1", "select 2"]),
    "in quotes": ("select ';' as `a;b`, \";\"; x", ["select ';' as `a;b`, \";\"", "x"]),
    "an escaped quote": (r"select 'it\';s'; x", [r"select 'it\';s'", "x"]),
    "in comments": ("select 1 -- a; b\n; /* c;\nd */ x", ["select 1 -- a; b", "/* c;\nd */ x"]),
    "nothing": (" ;;\n", []),
}


@pytest.mark.parametrize("name", TEXTS)
def test_where_statements_end(name: str) -> None:
    text, found = TEXTS[name]
    assert [*statements(text)] == found


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("select 1", False),
        ("select 1;\n", True),
        ("select ';'", False),
        (".tables\n", True),
        ("a; b", False),
        ("", False),
    ],
)
def test_what_is_whole(text: str, whole: bool) -> None:
    assert is_whole(text) is whole


def test_an_unknown_word_is_told_to_programs_too(lake: Lake) -> None:
    with pytest.raises(PipelineError, match=r"\.help is neither"):
        Questions(lake, lambda: sys.exit("no Spark here")).ask(".help")
