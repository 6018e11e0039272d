"""Test that Lua is read without running it: tokens, syntax, names and constants, compared with the real compiler."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import helen_checks
from equus.lua.compiler import Compiler
from equus.lua.constants import NotConstant, plain, returned_value
from equus.lua.parser import parse
from equus.lua.tokens import LuaSyntaxError, tokens

COMPILER = Compiler()
SHIPPED = [path.read_text() for path in sorted(Path(helen_checks.FOLDER).rglob("*.lua"))]


def value(source: str):
    return plain(returned_value(parse(source)))


@pytest.mark.parametrize(
    ("literal", "expected"),
    [
        ("0", 0),
        ("007", 7),
        ("3.0", 3.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("1E-2", 0.01),
        ("0xff", 255),
        ("0XA", 10),
        ("0x.8p1", 1.0),
        ("0xA.8", 10.5),
        ("0xffffffffffffffff", -1),
        ("9223372036854775807", 9223372036854775807),
        ("9223372036854775808", 9223372036854775808.0),
        ("-2", -2),
        ("'a\\tb'", "a\tb"),
        ('"\\x41\\65\\u{42}\\z   \n  C"', "AABC"),
        ("'\\\n'", "\n"),
        ("[[\nline]]", "line"),
        ("[==[a]]b]=]c]==]", "a]]b]=]c"),
        ("'\\xc3\\xa4'", "ä"),
        ("'\\xff'", "\udcff"),
        ("'a' .. 'b' .. 'c'", "abc"),
        ("2 + 3 * 4", 14),
        ("(2 + 3) * 4", 20),
        ("7 / 2", 3.5),
        ("9223372036854775807 + 1", -9223372036854775808),
        ("4611686018427387904 * 4611686018427387904 * 16", 0),
        ("not nil", True),
        ("{1, 2, 3}", [1, 2, 3]),
        ("{a = 1; ['b'] = 2, c = nil}", {"a": 1, "b": 2}),
        ("{1, 2, x = 3}", {"1": 1, "2": 2, "x": 3}),
        ("{}", {}),
        ("{[1.0] = 'a'}", ["a"]),
        ("{{}, {1, {2}}}", [{}, [1, [2]]]),
    ],
)
def test_constants(literal, expected):
    """A constant has the value that Lua itself gives it."""
    assert value(f"return {literal}") == expected


def test_constants_by_name_and_by_assignment():
    """Local constants, tables that are filled in later, and functions are read without running the source."""
    source = """
      local LIMIT <const>, unit = 80 * 2, "%"
      local string_format = string.format
      local check = { args = { warn = { default = LIMIT } } }
      check.args.warn.help = "in " .. unit
      check.args["crit"] = { default = LIMIT + 1 }
      function check.run(args, host) return string_format("%d", args.warn) end
      return check
    """
    data = returned_value(parse(source))
    assert (data["run"].line, data["run"].parameters) == (7, ("args", "host"))
    assert plain(data["args"]) == {"warn": {"default": 160, "help": "in %"}, "crit": {"default": 161}}
    assert data.line_of("args") == 4


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("return f()", 1),
        ("local x = 1\nx = 2\nreturn x", 3),
        ("local t = {}\nfor i = 1, 3 do t[i] = i end\nreturn t", 2),
        ("return {\n a = os.time() }", 2),
        ("return { [{}] = 1 }", 1),
        ("print 'x'\nreturn {}", 1),
        ("return 1 / 0", 1),
        ("return 'a' + 1", 1),
        ("local x = {}", 1),
        ("return 1, 2", 1),
        ("", 1),
        ("return ...", 1),
    ],
)
def test_what_is_no_constant(source, line):
    """A value that only a run could tell raises NotConstant with its line."""
    with pytest.raises(NotConstant) as caught:
        returned_value(parse(source))
    assert caught.value.line == line


def accepted(source: str) -> bool:
    try:
        parse(source)
    except LuaSyntaxError:
        return False
    return True


GOOD = """local a <const>, b <close> = 1, nil
goto done
do local x = a; ::done:: end
::done::
for i = 1, 10, 2 do if i > 3 then break elseif i == 2 then goto on else b = i end ::on:: end
for k, v in pairs(t) do t[k], t.x.y = v, k end
while true do repeat local z = f() until z; return end
function m.a.b:c(...) return select('#', ...), ... end
local function r() return r() end
local t = {f = function() end, [1] = 2; 3, f(), ...}
x:y"z":w{1}:v[[s]](1).q[2] = -2 ^ -3 .. 'a' .. not nil == true
a = a // 2 << 1 >> 3 & 4 | 5 ~ 6 ~ ~7
;;; f{} f"" f[[]] ; (f or g)()
local s = #t + - - 1
return function(a, b, ...) end
""".splitlines()


@pytest.mark.parametrize("line", GOOD)
def test_all_forms_of_the_language(line):
    """Each form of the language is accepted by the parser, and by the compiler where it stands alone."""
    assert accepted(line)


@pytest.mark.parametrize("source", SHIPPED, ids=range(len(SHIPPED)))
def test_shipped_sources(source):
    """Each installed source compiles and parses."""
    assert COMPILER.fault(source.encode()) is None
    assert accepted(source)


BAD = [
    "x",
    "x =",
    "= 1",
    "function f(a,) end",
    "for i = 1, 2, 3, 4 do end",
    "\ufeffx = 1",
    "#!/bin/lua\nx = 1",
    "x = 08a",
    "local",
    "local 1",
    "if x",
    "if x then",
    "if x then else elseif y then end",
    "for i do end",
    "for i = 1 do end",
    "for in x do end",
    "function () end",
    "function a.b:c.d() end",
    "return return",
    "return 1 2",
    "f() = 1",
    "(f) ()= 1",
    "a.b:c = 1",
    "x = }",
    "x = {",
    "x = {1 2}",
    "x = (1",
    "x = [[",
    "x = 'a",
    "x = 'a\nb'",
    "x = '\\q'",
    "x = '\\300'",
    "x = 3x",
    "x = 0x",
    "x = 1e",
    "x = 1..2",
    "--[[ open",
    "end",
    "until x",
    "local x <foo> = 1",
    "goto 1",
    "::a",
    "a, b",
    "a, f() = 1",
    "x = function(a, ..., b) end",
    "x = a.1",
    "x = @",
    "x = \x01",
    "x = 'a\\",
    "repeat",
    "do do end",
    "x = f(",
    "local function f.g() end",
    "and = 1",
]


@pytest.mark.parametrize("source", BAD)
def test_what_is_no_lua(source):
    """Source that is no Lua is refused by the parser and the compiler, with a line that exists."""
    assert COMPILER.fault(source.encode()) is not None
    with pytest.raises(LuaSyntaxError) as caught:
        parse(source)
    assert 1 <= caught.value.line <= source.count("\n") + 1


# What only the compiler knows: rules beyond the grammar. It stops at them, so what comes behind is not compared.
BEYOND = (
    "no visible label",
    "jumps into the scope",
    "already defined",
    "break outside",
    "assign to const variable",
    "outside a vararg function",
    "multiple to-be-closed",
    "too many",
    "overflow",
)


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(SHIPPED),
    st.integers(0, 10**6),
    st.integers(1, 3),
    st.sampled_from(["", "(", "end", "=", "local", "1", ",", "'"]),
)
def test_a_damaged_source_is_judged_as_the_compiler_judges_it(source, where, length, instead):
    """The parser judges a damaged check as the compiler does: both accept it, or both refuse it."""
    cut = list(tokens(source))
    start = where % max(1, len(cut) - length - 1)
    words = [_written(token) for token in cut[:-1]]
    damaged = " ".join([*words[:start], instead, *words[start + length :]])
    fault = COMPILER.fault(damaged.encode())
    if fault is None:
        assert accepted(damaged)
    elif not any(word in fault[1] for word in BEYOND):
        assert not accepted(damaged), fault


def _written(token) -> str:
    """Return a token as source again, with long strings as quoted ones."""
    if token.kind != "string":
        return str(token.value)
    return '"' + "".join(f"\\{byte:03d}" for byte in token.value.encode("utf-8", "surrogateescape")) + '"'


@settings(deadline=None)
@given(st.text(alphabet="abx01 \n\t=()[]{}'\"-.,;:~<>#%^&|\\endiflocal", max_size=60))
def test_any_text_is_lua_or_not(text):
    """Any text gives a tree or LuaSyntaxError, and the parser accepts all that the compiler accepts."""
    fault = COMPILER.fault(text.encode())
    if fault is None:
        assert accepted(text)
    else:
        accepted(text)


@pytest.mark.parametrize(
    "source",
    [
        "x = " + "(" * 10_000,
        "x = " + "{" * 10_000,
        "x = " + "not " * 10_000 + "1",
        "do " * 10_000,
        "x = " + "a .. " * 10_000 + "a",
        "x = " + "function() return " * 10_000,
        "if x then " * 10_000,
    ],
)
def test_depth_is_bounded(source):
    """Deep nesting is refused with LuaSyntaxError, not with an exhausted stack."""
    with pytest.raises(LuaSyntaxError, match="nested more than"):
        parse(source)


@pytest.mark.parametrize(
    "source", ["x = " + "1 + " * 5_000 + "1", "x = a" + ".b" * 5_000, "f" + "()" * 5_000, "x = f" + "[1]" * 5_000]
)
def test_length_is_not_depth(source):
    """Long chains are flat for Lua, and the parser accepts them without a deep stack."""
    assert accepted(source)
    with pytest.raises(NotConstant):
        returned_value(parse(source.replace("x = ", "return ", 1) if source.startswith("x") else f"{source}\nreturn 1"))


LAUGHS = "local a0 = {1}\n" + "\n".join(f"local a{n + 1} = {{a{n}, a{n}}}" for n in range(60)) + "\nreturn a60"
TOWER = "local a = {}\n" + "local a = {a}\n" * 5000 + "return a"
DOUBLING = "local a0 = 'x'\n" + "\n".join(f"local a{n + 1} = a{n} .. a{n}" for n in range(60)) + "\nreturn a60"


@pytest.mark.parametrize(
    "source", [LAUGHS, TOWER, DOUBLING, "local t = {} t.x = t return t"], ids=["laughs", "tower", "doubling", "circle"]
)
def test_few_words_cannot_become_endless_data(source):
    """A few words cannot become endless data: tables that hold a table many times, circles and texts that double are
    refused.
    """
    with pytest.raises(NotConstant):
        plain(returned_value(parse(source)))


def test_a_source_has_a_largest_number_of_tokens(monkeypatch):
    """A source with more tokens than the limit is refused, and one at the limit is read."""
    monkeypatch.setattr("equus.lua.cursor.MOST_TOKENS", 1000)
    parse("x=1 " * 333)  # and the end of the source
    for source in ("x=1 " * 333 + ";", "a.b.c = d.e.f " * 70_000):
        with pytest.raises(LuaSyntaxError, match="too many for the linter"):
            parse(source)


def test_compiled_lua_is_refused():
    """Compiled Lua is refused before anything reads it."""
    with pytest.raises(LuaSyntaxError, match="compiled Lua"):
        parse("\x1bLua\x54\x00")


def test_lines_are_counted_through_everything():
    """Lines are counted through long strings, comments, escapes and carriage returns."""
    source = "--[[\n\n]] local a = [[\n\n]]\r\nlocal b = 'x\\\ny\\z\n   z'\nlocal c = a .. b .. d"
    assert [(use.path, use.line) for use in parse(source).globals] == [(("d",), 9)]
