"""Test that the queries for SQL Server in the documentation and the check that reads their output know the same
lines.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
QUERIES = (ROOT / "docs" / "checks.rst").read_text().partition("    SET NOCOUNT ON;\n")[2].partition("\n\nA line")[0]
CHECK = (ROOT / "checks" / "mssql.lua").read_text()


def test_the_check_knows_each_line_of_the_queries() -> None:
    """The check knows each line of the queries by its first word, and the last one as the end of the answer."""
    kinds = re.findall(r"^    SELECT '(\w+)'", QUERIES, re.MULTILINE)
    assert kinds == ["version", "uptime", "sessions", "blocked", "database", "log", "end"]
    figures = re.search(r"^local FIGURES = \{(.+)\}$", CHECK, re.MULTILINE)
    known = re.findall(r'kind == "(\w+)"', CHECK) + re.findall(r"(\w+) = true", figures[1] if figures else "")
    assert sorted([*known, "end"]) == sorted(kinds)


def test_a_name_is_one_line() -> None:
    """The queries replace line ends in the names of databases, because a name must stay on its line."""
    for name in ("d.name", "RTRIM(instance_name)"):
        assert f"REPLACE(REPLACE({name}, CHAR(13), ' '), CHAR(10), ' ')" in QUERIES


def test_errors_stand_apart_from_rows() -> None:
    """The documented call of sqlcmd has -r1, because it would otherwise write errors among the rows."""
    text = (ROOT / "docs" / "checks.rst").read_text()
    (command,) = re.findall(r"exec /opt/mssql-tools18/bin/sqlcmd (.+)", text)
    assert "-r1" in command.split() and "-b" in command.split()
