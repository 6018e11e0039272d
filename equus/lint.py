"""Judges the files of a set of checks without running them: syntax, the table, names, needs, units. Pure but for the
compiler.

Running the recorded tests is trial.py's; reading folders is check_files.py's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import evolve, field, frozen

from equus.lint_rules import (
    ERROR,
    HostUse,
    Problem,
    host_use,
    judge_globals,
    judge_metrics,
    judge_needs,
    judge_unused,
    required,
    run_parameters,
)
from equus.lua.compiler import Compiler
from equus.lua.constants import Lines, NotConstant, Run, plain, returned
from equus.lua.parser import parse
from equus.lua.tokens import LuaSyntaxError
from equus.lua.tree import Chunk, Function
from equus.sandbox.contract import BadTable, CheckTable, read_table

# A file with more is broken from the ground up; Helen shows them all on one page.
MOST_PROBLEMS = 100
# A name in a source may be a megabyte long.
LONGEST_TEXT = 1000


@frozen
class FileReport:
    """One file: its table if it is a good check, its problems by line, and the libraries that it requires."""

    sha256: str
    table: CheckTable | None = None
    problems: tuple[Problem, ...] = ()
    requires: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        return all(problem.severity != ERROR for problem in self.problems)

    def with_problem(self, problem: Problem) -> FileReport:
        """The same with one problem more."""
        return evolve(self, problems=(*self.problems, problem))

    def document(self) -> dict[str, Any]:
        """As it stands in `equus lint --output json`; times in seconds."""
        listed = [
            {"line": one.line, "severity": one.severity, "text": printable(one.text[:LONGEST_TEXT])}
            for one in self.problems
        ]
        table = None if self.table is None else _printable_data(self.table.document())
        requires = [printable(name[:LONGEST_TEXT]) for name in self.requires]
        return {"sha256": self.sha256, "table": table, "problems": listed, "requires": requires}


@frozen
class _Parsed:
    """One source that is Lua, with what must be known of it where it is required."""

    chunk: Chunk
    use: HostUse = field(repr=False)
    requires: Mapping[str, int]


def printable(text: str) -> str:
    """Text in which bytes that were no UTF-8 are replaced."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _printable_data(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable(key): _printable_data(item) for key, item in value.items()}
    return [_printable_data(item) for item in value] if isinstance(value, list) else value


def lint_files(files: Mapping[str, bytes]) -> dict[str, FileReport]:
    """Reports for checks (`disk.lua`), libraries (`lib/x.lua`) and tests (`tests/disk.lua`), by name."""
    compiler = Compiler()
    parsed: dict[str, _Parsed] = {}
    problems: dict[str, list[Problem]] = {}
    for name, source in files.items():
        problems[name] = list(_judge_source(name, source, compiler, parsed))
    tables = {}
    for name, one in parsed.items():
        if "/" not in name:
            tables[name] = _judge_check(one, parsed, problems[name])
        elif name.startswith("lib/"):
            problems[name] += _judge_requires(one, parsed)
    return {name: _report(source, tables.get(name), problems[name], parsed.get(name)) for name, source in files.items()}


def _report(source: bytes, table: CheckTable | None, problems: list[Problem], one: _Parsed | None) -> FileReport:
    ordered = sorted(problems, key=lambda problem: (problem.line, problem.severity, problem.text))
    # Errors first where some have to go: a file must not become good by having too many warnings.
    kept = sorted(ordered, key=lambda problem: problem.severity != ERROR)[:MOST_PROBLEMS]
    requires = () if one is None else tuple(sorted(one.requires)[:MOST_PROBLEMS])
    return FileReport(hashlib.sha256(source).hexdigest(), table, tuple(sorted(kept, key=ordered.index)), requires)


def parse_source(source: bytes, compiler: Compiler) -> Chunk:
    """The tree of a source that the real compiler takes as well. Raises LuaSyntaxError."""
    chunk = parse(source.decode("utf-8", "surrogateescape"))
    fault = compiler.fault(source)
    if fault is not None:
        raise LuaSyntaxError(*fault)
    return chunk


def _judge_source(name: str, source: bytes, compiler: Compiler, parsed: dict[str, _Parsed]) -> Iterator[Problem]:
    """What can be said of a source by itself."""
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
    yield from judge_globals(chunk)
    yield from judge_unused(chunk)
    if not name.startswith("tests/"):
        yield from unknown_calls
        yield from judge_metrics(chunk)


def _judge_requires(one: _Parsed, parsed: Mapping[str, _Parsed]) -> Iterator[Problem]:
    for library, line in one.requires.items():
        if f"lib/{library}.lua" not in parsed:
            yield Problem(line, ERROR, f'require "{library}": there is no lib/{library}.lua, or it is broken')


def _judge_check(one: _Parsed, parsed: Mapping[str, _Parsed], problems: list[Problem]) -> CheckTable | None:
    """The table of a check, or None; what is wrong with it goes to `problems`."""
    problems += _judge_requires(one, parsed)
    try:
        data = returned(one.chunk)
        raw = plain_table(data) if isinstance(data, Lines) else None
    except NotConstant as fault:
        text = f"{fault.text}; the table of a check is data that tools read without running it"
        problems.append(Problem(fault.line, ERROR, text))
        return None
    if not isinstance(data, Lines):
        problems.append(Problem(1, ERROR, "the file must return the table of the check"))
        return None
    problems += _judge_run(data)
    try:
        table = read_table(raw)
    except BadTable as fault:
        problems.append(Problem(_line_of(data, str(fault)), ERROR, str(fault)))
        return None
    problems += judge_needs(table.needs, data.line_of("needs"), _with_libraries(one, parsed))
    return table


def plain_table(data: Lines) -> Any:
    """The table without `run`, as Lua hands it over."""
    table = plain(data)
    if isinstance(table, dict):
        table.pop("run", None)
    return table


def _judge_run(data: Lines) -> Iterator[Problem]:
    run = data.get("run")
    if not isinstance(run, Run):
        yield Problem(data.line_of("run"), ERROR, "the table has no function run(args, host)")
    else:
        yield from run_parameters(Function(run.line, run.parameters))


def _line_of(data: Lines, text: str) -> int:
    """Where the field stands that a sentence of the contract begins with: `args.warn needs a type`."""
    word = text.split(None, 1)[0].strip(":")
    place: Any = data
    line = data.line
    for part in word.split("."):
        if not isinstance(place, Lines) or part not in place:
            break
        line, place = place.line_of(part), place[part]
    quoted = next((key for key in data if isinstance(key, str) and repr(key) in text), None)
    return data.line_of(quoted) if quoted is not None and line == data.line else line


def _with_libraries(one: _Parsed, parsed: Mapping[str, _Parsed]) -> HostUse:
    """The calls of a check and of all that it requires; those of libraries count on the line of `require`."""
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
