"""Test recorded tests: how they are read, how calls are answered, what counts as equal, what a failure says."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equus.authoring.test_cases import DEFAULT_NOW, BadCase, Recording, differences, read_cases, same
from equus.authoring.test_runner import run_tests
from equus.code.check_files import CheckFiles
from equus.lua.tokens import LuaSyntaxError
from equus_protocol.plugin_output import perfdata, plugin_output
from equus_protocol.results import Metric, ResultDocument, parse_plugin

CASES = b"""local big = { used_percent = 93.1 }
return {
  {
    name = "full",
    args = { path = "/srv", list = { "a" } },
    host = {
      now = 5, state = { seen = 1 },
      disk = { { args = { "/srv" }, value = big, once = true }, { code = "not-found", text = "gone" } },
      http = { args = { { url = "x" } }, value = { status = 200 } },
    },
    expect = { status = "critical", metrics = { used = 93.1 } },
  },
  { name = "bare", expect = { status = "ok" } },
}
"""


def test_cases_are_read_without_running_them():
    """Cases are read without running them, with every field and with the defaults of those that are left out."""
    full, bare = read_cases(CASES)
    assert (full.name, full.line, full.args) == ("full", 3, {"path": "/srv", "list": ["a"]})
    assert (full.now, full.state) == (5.0, {"seen": 1})
    assert (bare.now, bare.args, bare.answers, bare.expect) == (DEFAULT_NOW, {}, {}, {"status": "ok"})


@pytest.mark.parametrize(
    ("source", "line", "text"),
    [
        (b"return 5", 1, "a test file returns a list of cases"),
        (b"return { a = {} }", 1, "a test file returns a list of cases"),
        (b"return { f() }", 1, "this is not a constant; a test file is data"),
        (b"return {\n 5 }", 2, "a case must be a table"),
        (b"return {\n {} }", 2, "a case needs a name"),
        (
            b"return { { name = 'a',\nexpct = {} } }",
            2,
            "a case has no expct; did you mean expect? (name, args, host, expect)",
        ),
        (b"return { { name = 'a' } }", 1, "expect must be a table"),
        (
            b"return { { name = 'a', expect = { status = 'fine' } } }",
            1,
            "expect needs a status: ok, warning, critical, unknown",
        ),
        (
            b"return { { name = 'a', host = {\ndsk = { value = 1 } }, expect = { status = 'ok' } } }",
            2,
            "there is no call host.dsk; did you mean disk?",
        ),
        (
            b"return { { name = 'a', host = { disk = {\ncode = 'missing' } }, expect = { status = 'ok' } } }",
            2,
            "there is no code missing",
        ),
        (
            b"return { { name = 'a', host = { disk = 5 }, expect = { status = 'ok' } } }",
            1,
            "disk must be a table: { value = ... } or { code = ..., text = ... }",
        ),
        (
            b"return { { name = 'a', host = { disk = { args = { x = 1 } } }, expect = { status = 'ok' } } }",
            1,
            "args must be the list of the call's arguments",
        ),
        (b"return { { name = 'a', args = { 1 }, expect = { status = 'ok' } } }", 1, "args must be a table with names"),
        (
            b"return { { name = 'a', expect = { status = 'ok', metrics = 5 } } }",
            1,
            "metrics must be a table with names",
        ),
        (
            b"return { { name = 'a', expect = { status = 'ok', state = { 1 } } } }",
            1,
            "state must be a table with names",
        ),
        (b"return { { name = 'a', host = { now = 'x' }, expect = { status = 'ok' } } }", 1, "now must be a number"),
        (
            b"return { { name = 'a', expect = { status = 'ok', metrics = { x = { vale = 1 } } } } }",
            1,
            "metric x has no vale; did you mean value? (value, unit, kind, warn, crit, min, max)",
        ),
    ],
)
def test_cases_that_cannot_be_run(source, line, text):
    """Each fault in a file of tests has its line and a text that names the fault."""
    with pytest.raises(BadCase) as caught:
        read_cases(source)
    assert (caught.value.line, caught.value.text) == (line, text)


def test_a_test_file_that_is_no_lua():
    """A test file that is no Lua raises the parser's own error."""
    with pytest.raises(LuaSyntaxError):
        read_cases(b"return {")


def test_answers_by_arguments():
    """A call gets the first recorded answer that fits, an answer for one call is used up, and a missing one is
    noted.
    """
    recording = Recording(read_cases(CASES)[0])
    assert recording.answer("disk", ["/srv"]) == {"value": {"used_percent": 93.1}}
    assert recording.answer("disk", ["/srv", None]) == {"error": ["not-found", "gone"]}
    assert recording.answer("http", [{"url": "x", "method": "GET"}]) == {"value": {"status": 200}}
    assert recording.missing == []
    assert recording.answer("http", [{"url": "y"}])["error"][0] == "failed"
    assert recording.answer("mem", [])["error"][0] == "failed"
    assert recording.missing == ['host.http({"url": "y"})', "host.mem()"]


def test_state_is_a_table_of_the_case():
    """The state of a recording is read and changed as a table of its own, and the case stays as it is."""
    case = read_cases(CASES)[0]
    recording = Recording(case)
    assert recording.answer("state.get", ["seen"]) == {"value": 1}
    recording.answer("state.put", ["seen", None])
    recording.answer("state.put", ["new", [1]])
    assert recording.state == {"new": [1]}
    assert case.state == {"seen": 1}


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(), st.lists, max_leaves=5
    )
)
def test_what_is_equal_to_itself(value):
    """Any plain value equals itself."""
    assert same(value, value)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (93.1, 93.10000001, True),
        (93.1, 93.2, False),
        ([], {}, True),
        ([], None, False),
        ([1], [1, 2], False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ("1", 1, False),
    ],
)
def test_what_counts_as_equal(one, other, equal):
    """Numbers are equal if nearly so, tables if all their fields are, and an empty list equals an empty table."""
    assert same(one, other) is equal


def test_differences_say_expected_and_actual():
    """A failed case lists expected and actual, one below the other, for each thing that differs."""
    case = read_cases(
        b"return { { name = 'a', expect = { status = 'ok', summary = 'fine', state = { k = 1 }, "
        b"metrics = { x = 1, ['y{a=b}'] = { value = 2, unit = 'B' } } } } }"
    )[0]
    result = {
        "status": "unknown",
        "summary": "broken",
        "reason": "crashed",
        "metrics": [{"name": "y", "value": 2, "unit": "s", "kind": "gauge", "labels": {"a": "b"}}],
    }
    assert differences(case, result, Recording(case)) == [
        'status\n    expected "ok"\n    actual   "unknown"',
        'summary\n    expected "fine"\n    actual   "broken"',
        "state k\n    expected 1\n    actual   nothing",
        "metric x is missing; there are y{a=b}",
        'metric y{a=b} unit\n    expected "B"\n    actual   "s"',
        "the run ended with reason crashed: broken",
    ]


def test_no_metrics_means_none():
    """An expected empty table of metrics means that the result has none."""
    case = read_cases(b"return { { name = 'a', expect = { status = 'ok', metrics = {} } } }")[0]
    result = {"status": "ok", "metrics": [{"name": "x", "value": 1}]}
    assert differences(case, result, Recording(case)) == ['metrics\n    expected "none"\n    actual   ["x"]']
    assert differences(case, {"status": "ok"}, Recording(case)) == []


CHECK = b"""local check = { summary = "a", needs = { "mem" }, args = { n = { type = "integer", default = 1 } } }
function check.run(args, host)
  local memory, code, text = host.mem()
  host.state.put("seen", args.n)
  host.metric("used", memory and memory.used_percent or 0, { unit = "%", warn = "80" })
  if not memory then return "unknown", code .. ": " .. text end
  local load, refused = host.load()
  return nil, tostring(load) .. " " .. tostring(refused) .. string.format(" at %d", host.now())
end
return check
"""


def outcome(tests: bytes):
    files = CheckFiles(Path("/nowhere"), {"x.lua": CHECK, "tests/x.lua": tests})
    return [(one.name, one.line, one.faults) for one in run_tests(files, ["x"])]


def test_recorded_tests_in_the_real_sandbox():
    """Recorded tests run in the real sandbox: needs are enforced, the time is the case's, and the state is compared."""
    tests = b"""return {
      { name = "passes", args = { n = 7 }, host = { now = 99, mem = { value = { used_percent = 90 } } },
        expect = { status = "warning", summary = "nil denied at 99", state = { seen = 7 },
          metrics = { used = { value = 90, unit = "%" } } } },
      { name = "fails", host = { mem = { value = { used_percent = 10 } } }, expect = { status = "warning" } },
      { name = "nothing recorded", expect = { status = "unknown" } },
      { name = "refused", args = { n = "x" }, expect = { status = "unknown", reason = "bad-arguments" } },
    }"""
    assert outcome(tests) == [
        ("passes", 2, ()),
        ("fails", 5, ('status\n    expected "warning"\n    actual   "ok"',)),
        ("nothing recorded", 6, ("no answer is recorded for host.mem()",)),
        ("refused", 7, ()),
    ]


@pytest.mark.parametrize(("tests", "text"), [(b"return {}", "it has no test case"), (b"return {", "'}' expected")])
def test_a_file_of_tests_that_tests_nothing(tests, text):
    """A file of tests without a case, or with a syntax error, counts as a failure: silence would look like success."""
    ((name, _, faults),) = outcome(tests)
    assert name == "the file of tests"
    assert text in faults[0] or "unexpected symbol" in faults[0]


# The output of `equus run` ------------------------------------------------------------------------------------------


def test_plugin_output():
    """The output for a plugin has state, summary, bar, figures and long output, and a bar in the summary is
    replaced.
    """
    metrics = (
        Metric("used", 93.1, "%", labels={"path": "/my disk"}, warn="80", crit="90", min=0.0, max=100.0),
        Metric("free", 1024.0, "B"),
        Metric("running", 3.0, "processes", warn="5"),
        Metric("odd", None, "B", text="nan"),
    )
    result = ResultDocument(2, "disk | full\nreally", metrics, output="first\nsecond | x=1\n")
    assert plugin_output(result) == (
        "CRITICAL: disk ¦ full really | 'used /my disk'=93.1%;80;90;0;100 free=1024B running=3;5 odd=U\n"
        "first\nsecond ¦ x=1"
    )
    assert plugin_output(ResultDocument(3)) == "UNKNOWN: no summary"


@settings(deadline=None)
@given(
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,20}", fullmatch=True),
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e15, max_value=1e15).map(
        lambda value: float(f"{value:.12g}")
    ),
    st.sampled_from(["s", "%", "B", "c", ""]),
    st.dictionaries(st.sampled_from("ab"), st.text(alphabet="xyz /'|;", max_size=8)),
    st.sampled_from([None, "80", "@10:20", "~:5"]),
)
def test_performance_data_can_be_read_again(name, value, unit, labels, warn):
    """Performance data that is printed and parsed again gives the same metric, with its labels as part of the name."""
    metric = Metric(name, value, unit, labels=labels, warn=warn)
    document = parse_plugin(f"OK: x | {perfdata(metric)}".encode(), 0)
    (read,) = document.metrics
    assert (read.value, read.unit, read.warn) == (value, unit, warn)
    assert read.name.split() == " ".join([name, *labels.values()]).split()
