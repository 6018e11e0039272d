"""Lint the files of a check set without running them: syntax, table, names, needs, units. Pure but for the compiler.

test_runner.py runs the recorded tests; equus/code/check_files.py reads folders.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import evolve, field, frozen

from equus.authoring.lint_rules import (
    ERROR,
    HostUse,
    Problem,
    host_use,
    lint_globals,
    lint_needs,
    lint_parameters,
    lint_units,
    lint_unused,
    required,
)
from equus.lua.compiler import Compiler
from equus.lua.constants import FunctionValue, LocatedTable, NotConstant, plain, returned_value
from equus.lua.parser import parse
from equus.lua.tokens import LuaSyntaxError
from equus.lua.tree import Chunk, Function
from equus.sandbox.check_table import BadTable, CheckTable, read_table

# Problems of one file; Helen shows them on one page.
MOST_PROBLEMS = 100
# Characters of one text: a name in a source may be a megabyte long.
LONGEST_TEXT = 1000


@frozen
class FileReport:
    """Reports on one file: its table if it is a valid check, its problems by line, and the libraries it requires."""

    sha256: str
    table: CheckTable | None = None
    problems: tuple[Problem, ...] = ()
    requires: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        return all(problem.severity != ERROR for problem in self.problems)

    def with_problem(self, problem: Problem) -> FileReport:
        """Return a copy with one more problem."""
        return evolve(self, problems=(*self.problems, problem))

    def document(self) -> dict[str, Any]:
        """Return the report for `equus lint --output json`, times in seconds.

        {"sha256", "table", "problems": [{"line", "severity", "text"}], "requires": [...]}
        """
        listed = [
            {"line": one.line, "severity": one.severity, "text": printable(one.text[:LONGEST_TEXT])}
            for one in self.problems
        ]
        table = None if self.table is None else _printable_data(self.table.document())
        requires = [printable(name[:LONGEST_TEXT]) for name in self.requires]
        return {"sha256": self.sha256, "table": table, "problems": listed, "requires": requires}


@frozen
class _Parsed:
    """Holds one valid source, with its host calls and the libraries that it requires."""

    chunk: Chunk
    use: HostUse = field(repr=False)
    requires: Mapping[str, int]


def printable(text: str) -> str:
    """Return a text with a question mark for each byte that was no UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _printable_data(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable(key): _printable_data(item) for key, item in value.items()}
    return [_printable_data(item) for item in value] if isinstance(value, list) else value


def lint_files(files: Mapping[str, bytes]) -> dict[str, FileReport]:
    """Lint checks (`disk.lua`), libraries (`lib/x.lua`) and tests (`tests/disk.lua`); return the reports by name."""
    compiler = Compiler()
    parsed: dict[str, _Parsed] = {}
    problems: dict[str, list[Problem]] = {}
    for name, source in files.items():
        problems[name] = list(_lint_source(name, source, compiler, parsed))
    tables = {}
    for name, one in parsed.items():
        if "/" not in name:
            tables[name] = _lint_check(one, parsed, problems[name])
        elif name.startswith("lib/"):
            problems[name] += _lint_requires(one, parsed)
    return {name: _report(source, tables.get(name), problems[name], parsed.get(name)) for name, source in files.items()}


def _report(source: bytes, table: CheckTable | None, problems: list[Problem], one: _Parsed | None) -> FileReport:
    ordered = sorted(problems, key=lambda problem: (problem.line, problem.severity, problem.text))
    # Errors are kept first: a file must not pass because warnings have displaced its errors.
    kept = sorted(ordered, key=lambda problem: problem.severity != ERROR)[:MOST_PROBLEMS]
    requires = () if one is None else tuple(sorted(one.requires)[:MOST_PROBLEMS])
    return FileReport(hashlib.sha256(source).hexdigest(), table, tuple(sorted(kept, key=ordered.index)), requires)


def parse_source(source: bytes, compiler: Compiler) -> Chunk:
    """Parse a source, and compile it with the real compiler. Raises LuaSyntaxError if either refuses it."""
    chunk = parse(source.decode("utf-8", "surrogateescape"))
    fault = compiler.fault(source)
    if fault is not None:
        raise LuaSyntaxError(*fault)
    return chunk


def _lint_source(name: str, source: bytes, compiler: Compiler, parsed: dict[str, _Parsed]) -> Iterator[Problem]:
    """Yield the problems of one source by itself, and add it to `parsed`."""
    try:
        chunk = parse_source(source, compiler)
    except LuaSyntaxError as fault:
        yield Problem(fault.line, ERROR, fault.text)
        return
    except RecursionError:
        yield Problem(1, ERROR, "the source is nested too deep")
        return
    use, unknown_calls = host_use(chunk)
    parsed[name] = _Parsed(chunk, use, required(chunk))
    yield from lint_globals(chunk)
    yield from lint_unused(chunk)
    if not name.startswith("tests/"):
        yield from unknown_calls
        yield from lint_units(chunk)


def _lint_requires(one: _Parsed, parsed: Mapping[str, _Parsed]) -> Iterator[Problem]:
    for library, line in one.requires.items():
        if f"lib/{library}.lua" not in parsed:
            yield Problem(line, ERROR, f'require "{library}": there is no lib/{library}.lua, or it is broken')


def _lint_check(one: _Parsed, parsed: Mapping[str, _Parsed], problems: list[Problem]) -> CheckTable | None:
    """Return the table of a check, or None; its faults are added to `problems`."""
    problems += _lint_requires(one, parsed)
    try:
        data = returned_value(one.chunk)
        raw = plain_table(data) if isinstance(data, LocatedTable) else None
    except NotConstant as fault:
        text = f"{fault.text}; the table of a check is data that tools read without running it"
        problems.append(Problem(fault.line, ERROR, text))
        return None
    if not isinstance(data, LocatedTable):
        problems.append(Problem(1, ERROR, "the file must return the table of the check"))
        return None
    problems += _lint_run(data)
    try:
        table = read_table(raw)
    except BadTable as fault:
        problems.append(Problem(_line_of(data, str(fault)), ERROR, str(fault)))
        return None
    problems += lint_needs(table.needs, data.line_of("needs"), _with_libraries(one, parsed))
    return table


def plain_table(data: LocatedTable) -> Any:
    """Return the table without `run`, in the form in which the sandbox gets it from Lua."""
    table = plain(data)
    if isinstance(table, dict):
        table.pop("run", None)
    return table


def _lint_run(data: LocatedTable) -> Iterator[Problem]:
    run = data.get("run")
    if not isinstance(run, FunctionValue):
        yield Problem(data.line_of("run"), ERROR, "the table has no function run(args, host)")
    else:
        yield from lint_parameters(Function(run.line, run.parameters))


def _line_of(data: LocatedTable, text: str) -> int:
    """Return the line of the field that a sentence of check_table.py begins with: `args.warn needs a type`."""
    word = text.split(None, 1)[0].strip(":")
    place: Any = data
    line = data.line
    for part in word.split("."):
        if not isinstance(place, LocatedTable) or part not in place:
            break
        line, place = place.line_of(part), place[part]
    quoted = next((key for key in data if isinstance(key, str) and repr(key) in text), None)
    return data.line_of(quoted) if quoted is not None and line == data.line else line


def _with_libraries(one: _Parsed, parsed: Mapping[str, _Parsed]) -> HostUse:
    """Return the calls of a check and of its libraries; those of libraries have the line of the `require`."""
    calls, computed = dict(one.use.calls), one.use.computed
    seen: set[str] = set()
    waiting = list(one.requires.items())
    while waiting:
        name, line = waiting.pop()
        library = parsed.get(f"lib/{name}.lua")
        if library is None or name in seen:
            continue
        seen.add(name)
        computed = computed or library.use.computed
        for call in library.use.calls:
            calls.setdefault(call, line)
        waiting += [(inner, line) for inner in library.requires]
    return HostUse(calls, computed)
