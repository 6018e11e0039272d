"""Test the linter: it finds these faults and names their places, and any file gives a report."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equus.authoring.lint import MOST_PROBLEMS, lint_files
from equus.authoring.lint_rules import GLOBALS, Problem
from equus.sandbox.blocking import Sandbox
from equus.sandbox.job import Job

GOOD = """local check = {
  summary = "A check",
  needs = { "disk" },
  every = "1m",
  args = { path = { type = "string", default = "/", help = "where" } },
}

function check.run(args, host)
  local disk, code, text = host.disk(args.path)
  if not disk then return "unknown", text end
  host.metric("used", disk.used_percent, { unit = "%" })
end

return check
"""


def lint(source: str, **libraries: str):
    """Return the linter's report of one check with these libraries."""
    files = {"x.lua": source.encode()} | {f"lib/{name}.lua": text.encode() for name, text in libraries.items()}
    return lint_files(files)["x.lua"]


def problems(source: str, **libraries: str) -> list[tuple[int, str, str]]:
    return [(one.line, one.severity, one.text) for one in lint(source, **libraries).problems]


def within(body: str, needs: str = "{}") -> str:
    """Return the source of a check whose run is this body, which begins on line 3."""
    table = f'local check = {{ summary = "A check", needs = {needs} }}'
    return f"{table}\nfunction check.run(args, host)\n{body}\nend\nreturn check\n"


def test_a_good_check():
    """A good check has no problem, and the report shows its table with times in seconds."""
    document = lint(GOOD).document()
    assert document["problems"] == []
    assert document["table"] == {
        "summary": "A check",
        "needs": ["disk"],
        "every": 60.0,
        "timeout": 10.0,
        "args": {"path": {"type": "string", "default": "/", "help": "where"}},
    }
    assert len(document["sha256"]) == 64


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return stauts", (3, "error", "stauts is not defined")),
        ("return tostrng(1)", (3, "error", "tostrng is not defined; did you mean tostring?")),
        ("\ncount = 1", (4, "error", "count is assigned but not local: write `local count`")),
        ("function extra() end", (3, "error", "extra is assigned but not local: write `local extra`")),
        ("return os.execute('id')", (3, "error", "os.execute does not exist in a check")),
        ("return string.dump(print)", (3, "error", "string.dump does not exist in a check")),
        ("return io.open('/etc/passwd')", (3, "error", "io is not defined")),
        ("return load('return 1')", (3, "error", "load is not defined")),
        ("return _ENV", (3, "error", "_ENV is not defined")),
        ("local unused = 1", (3, "warning", "unused is never used")),
        ("local function unused() end", (3, "warning", "unused is never used")),
        ("local a, b = args, args return a", (3, "warning", "b is never used")),
        ("return host.dsk('/')", (3, "error", "host.dsk does not exist; did you mean host.disk?")),
        (
            "return host.file.write('/x')",
            (
                3,
                "error",
                "host.file.write does not exist; there is host.file.stat, host.file.list, host.file.read,"
                " host.file.tail, host.file.checksum",
            ),
        ),
        ("return host.cpu()", (3, "error", 'host.cpu needs "cpu": add it to needs')),
        ("local get = host.mem return get()", (3, "error", 'host.mem needs "mem": add it to needs')),
        (
            "host.metric('x', 1)",
            (3, "warning", '"x" has no unit: write unit = "B" (or s, %, c, a name; "" for a bare number)'),
        ),
        (
            "host.metric('x', 1, { kind = 'counter' })",
            (3, "warning", '"x" has no unit: write unit = "B" (or s, %, c, a name; "" for a bare number)'),
        ),
        ("host.metric('x')", (3, "error", "host.metric takes a name and a value")),
        ("return require 'none'", (3, "error", 'require "none": there is no lib/none.lua, or it is broken')),
        ("if x then", (4, "error", "x")),
        ("goto nowhere", (3, "error", "no visible label 'nowhere' for <goto>")),
        ("local a <const> = 1; a = 2; return a", (3, "error", "attempt to assign to const variable 'a'")),
    ],
)
def test_faults_in_run(body, expected):
    """The linter reports each fault in `run` with its line, and nothing else."""
    found = problems(within(body))
    if expected[2] == "x":  # a block that nobody ends: where it began
        assert found[0][1:] == ("error", "'end' expected (to close 'function' at line 2) near '<eof>'")
    else:
        assert found[0] == expected
        assert len({text for _, _, text in found}) == 1


@pytest.mark.parametrize(
    "body",
    [
        "local _, _, text = host.state.get('x'), 1, 2 return text",
        "host.log('x') host.state.put('a', 1) return host.now()",
        "host.metric('x', 1, { unit = '' })",
        "local options = { unit = 'B' } host.metric('x', 1, options)",
        "for k, v in pairs(args) do print(k) end",
        "local host = args return host.anything",
        "return ('x'):rep(3), math.pi, utf8.charpattern, coroutine.wrap(print), os.time()",
        "return args.host.whatever",
    ],
)
def test_what_is_no_fault(body):
    """The linter accepts placeholders, units in a table of their own, loop variables and the calls that need no
    grant.
    """
    allowed = [found for found in problems(within(body)) if "host.anything" not in found[2]]
    assert allowed == []


def test_globals_are_told_once():
    """An undefined name that is used a hundred times is one problem."""
    assert len(problems(within("print(x) " * 100))) == 1


@pytest.mark.parametrize(
    ("table", "line", "text"),
    [
        ("{ run = run }", 2, "summary must be one line that says what the check looks at"),
        ("{\nsummary = 5, run = run }", 3, "summary must be one line that says what the check looks at"),
        (
            "{ summary = 'a',\n\nneeds = { 'dsk' }, run = run }",
            4,
            'needs lists "dsk", which is no capability; did you mean disk?',
        ),
        (
            "{ summary = 'a',\nneeds = 'disk', run = run }",
            3,
            'needs must be a list of capability names, such as { "disk" }',
        ),
        (
            "{ summary = 'a',\nevery = '1 minute', run = run }",
            3,
            "every: '1 minute' is not a duration: write 500ms, 30s, 5m, 1h or 2d",
        ),
        (
            "{ summary = 'a',\ntimeot = '1m', run = run }",
            3,
            "the table has no field 'timeot'; its fields are summary, needs, every, timeout, args, run, attempts, "
            "runbook, owner, notes",
        ),
        (
            "{ summary = 'a', args = {\nx = { type = 'text' } }, run = run }",
            3,
            "args.x needs a type: one of string, number, integer, boolean, range, duration, list",
        ),
        (
            "{ summary = 'a', args = {\nx = { type = 'range', default = 'much' } }, run = run }",
            3,
            "args.x: must be a range (10, 10:, ~:10, 10:20 or @10:20), not 'much'",
        ),
        ("{ summary = 'a' }", 2, "the table has no function run(args, host)"),
        ("{ summary = 'a',\nrun = 5 }", 3, "the table has no function run(args, host)"),
        ("5", 1, "the file must return the table of the check"),
        (
            "{ summary = os.date(), run = run }",
            2,
            "this is not a constant; the table of a check is data that tools read without running it",
        ),
    ],
)
def test_faults_of_the_table(table, line, text):
    """The linter reports a fault of the table on the line of the faulty field."""
    source = f"local function run() end\nreturn {table}\n"
    found = [problem for problem in problems(source) if problem[1] == "error" and "os.date" not in problem[2]]
    assert found == [(line, "error", text)]
    if "needs lists" not in text and "function run" not in text:
        assert lint(source).table is None


def test_needs_that_nobody_uses():
    """An entry of `needs` that no call uses is a warning, since it asks for a right without a use."""
    assert problems(within("return 'ok'", needs='{ "disk", "tcp" }')) == [
        (1, "warning", 'needs lists "disk", and no call uses it'),
        (1, "warning", 'needs lists "tcp", and no call uses it'),
    ]
    assert problems(within("return host[args.x]('y')", needs='{ "disk" }')) == []
    assert problems(within("return 'ok'", needs='{ "state", "log" }')) == []


def test_calls_of_libraries_count():
    """Calls in libraries count, also in libraries that libraries require; the reported line is that of `require`."""
    inner = "local l = {} function l.load(host) return host.load() end return l"
    outer = "local l = {} function l.load(host) return require('inner').load(host) end return l"
    source = within("local l = require 'outer'\nreturn l.load(host)")
    assert problems(source, outer=outer, inner=inner) == [(3, "error", 'host.load needs "load": add it to needs')]
    declared = within("local l = require 'outer'\nreturn l.load(host)", needs='{ "load" }')
    assert problems(declared, outer=outer, inner=inner) == []


def test_libraries_that_require_each_other_end():
    """The linter ends at libraries that require each other, and reports nothing: the sandbox refuses them."""
    circle = "local l = {} function l.f() return require 'b' end return l"
    assert problems(within("return require 'a'"), a=circle, b=circle.replace("'b'", "'a'")) == []


def test_a_library_is_judged_as_well():
    """The linter reports a library's problems under the name of the library."""
    reports = lint_files({"lib/a.lua": b"local l = {}\nfunction l.f(host) return host.nothing, zzz end\nreturn l\n"})
    assert [(one.line, one.text) for one in reports["lib/a.lua"].problems] == [
        (2, "host.nothing does not exist"),
        (2, "zzz is not defined"),
    ]


def test_a_second_parameter_of_another_name():
    """A second parameter that is not called `host` is a warning, because the rules find host calls by this name."""
    source = 'return { summary = "a", run = function(args, h) return h.cpu() end }'
    assert problems(source) == [
        (1, "warning", "call the second parameter of run `host`, so that its calls can be checked")
    ]


def test_many_problems_are_cut_with_the_errors_kept():
    """A report with too many problems is cut, and the check stays bad because errors are kept."""
    body = "\n".join(f"local unused{number} = 1" for number in range(150)) + "\nreturn oops"
    report = lint(within(body))
    assert len(report.problems) == MOST_PROBLEMS
    assert not report.good


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200), st.sampled_from(["x.lua", "lib/x.lua", "tests/x.lua"]))
def test_any_bytes_get_a_report_that_is_json(data, name):
    """The linter makes a report that is JSON of any bytes: half a source, or bytes that are no text."""
    for source in (data, GOOD.encode() + data, data + GOOD.encode(), GOOD.encode().replace(b"A check", data)):
        document = lint_files({name: source})[name].document()
        assert json.loads(json.dumps(document, ensure_ascii=False).encode("utf-8")) == document


def test_text_that_is_no_utf8_is_printable():
    """A byte of another encoding in a table becomes a question mark in the report."""
    report = lint(GOOD.replace("A check", "caf\\xe9"))
    assert report.document()["table"]["summary"] == "caf?"


ENVIRONMENT = """local check = { summary = "lists what there is" }
function check.run()
  local names = {}
  for name, value in pairs(_G) do
    names[#names + 1] = name
    if type(value) == "table" and name ~= "_G" then
      for field in pairs(value) do names[#names + 1] = name .. "." .. field end
    end
  end
  table.sort(names)
  return "ok", table.concat(names, " ")
end
return check
"""


def test_globals_are_those_of_the_sandbox():
    """The linter's list of globals equals the real environment of the sandbox, name by name."""
    with Sandbox() as sandbox:
        result = json.loads(sandbox.run(Job("x", ENVIRONMENT.encode(), pushed=False)))
    known = set(GLOBALS) | {f"{name}.{field}" for name, fields in GLOBALS.items() for field in fields}
    assert set(result["summary"].split()) == known


def test_a_problem_can_be_added():
    """A report takes one more problem, such as a test that fails, and keeps its table."""
    report = lint(GOOD).with_problem(Problem(1, "error", "a test fails"))
    assert (report.good, report.problems[-1].text, report.table) == (False, "a test fails", lint(GOOD).table)
