"""Test equus lua-meta: each written file is Lua, and says what the registry, the sandbox and recorded answers say.

lua-language-server is neither in Debian nor on PyPI, so that no test runs it.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import helen_checks
from equus.authoring.lua_meta.folder import MARK, settings_text
from equus.authoring.lua_meta.manual import manual
from equus.authoring.lua_meta.shapes import Field, read_shape
from equus.authoring.test_cases import read_cases
from equus.authoring.test_runner import run_once
from equus.capabilities.calls import CODES, CallFailed, Context
from equus.capabilities.names import ALWAYS_THERE, CAPABILITIES, CAPABILITY_OF
from equus.capabilities.registry import CALLS
from equus.code.check_files import CheckFiles
from equus.lua.compiler import Compiler
from equus.lua.parser import parse
from equus.main import main
from equus.policy.policy import Policy
from equus.sandbox.check_table import ARGUMENT_FIELDS, FIELDS, TYPES
from equus.secrets.references import Resolved

ROOT = Path(__file__).parents[3]
LIBRARIES = sorted(path.stem for path in (ROOT / "checks" / "lib").glob("*.lua"))
# Prints each function and value of each library, of `os`, and which of Lua's own libraries are there.
TELLS = """local check = { summary = "tells", args = { libraries = { type = "list" }, absent = { type = "list" } } }
local function tell(name, value)
  for key, each in pairs(value) do
    if type(key) == "string" then print(name .. "." .. key, type(each) == "function" and "function" or "value") end
  end
end
function check.run(args)
  for _, name in ipairs(args.libraries) do tell(name, require(name)) end
  tell("os", os)
  for _, name in ipairs(args.absent) do print("absent", name, tostring(_G[name])) end
  return "ok", "told"
end
return check
"""


def lua_meta(folder: Path) -> Result:
    return CliRunner().invoke(main, ["lua-meta", str(folder)], prog_name="equus")


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return all definitions by their names in the folder lua-meta."""
    folder = tmp_path_factory.mktemp("written")
    result = lua_meta(folder)
    assert (result.exit_code, result.output) == (0, f"Wrote {3 + len(LIBRARIES)} files to {folder / 'lua-meta'}\n")
    place = folder / "lua-meta"
    return {path.relative_to(place).as_posix(): path.read_text() for path in sorted(place.rglob("*.lua"))}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return what the sandbox itself says of its libraries, a line for each name."""
    absent = [name for name in json.loads(settings_text())["runtime.builtin"] if "." not in name]
    files = {"tells.lua": TELLS.encode()}
    files |= {f"lib/{name}.lua": (helen_checks.FOLDER / "lib" / f"{name}.lua").read_bytes() for name in LIBRARIES}
    args = json.dumps({"libraries": LIBRARIES, "absent": absent}).encode()
    blob = run_once(CheckFiles(tmp_path_factory.mktemp("told"), files), "tells", Resolved(args), None, None, print)
    document = json.loads(blob)
    assert document["summary"] == "told", document
    return set(document["output"].splitlines())


def test_each_file_is_lua_in_use(texts: dict[str, str]) -> None:
    """Each written file begins with the mark of its author, and the linter's parser and the sandbox's compiler accept
    it.
    """
    compiler = Compiler()
    for name, text in texts.items():
        assert text.startswith(f"{MARK}\n---@meta"), name
        parse(text)
        assert compiler.fault(text.encode()) is None, name


def test_calls_are_those_of_the_registry(texts: dict[str, str]) -> None:
    """Each call of the registry is defined once, with its capability in the comment above it and a failure code among
    its results.
    """
    defined = re.findall(r"^function host\.([a-z_.0-9]+)\(", texts["host.lua"], re.MULTILINE)
    assert sorted(defined) == sorted([*CAPABILITY_OF, *ALWAYS_THERE])
    for block in texts["host.lua"].split("\n\n"):
        found = re.search(r"^function host\.([a-z_.0-9]+)\(", block, re.MULTILINE)
        if found is not None:
            needs = CAPABILITY_OF.get(found[1])
            assert ("--- Needs no capability." if needs is None else f"--- Needs {needs}.") in block, found[1]
            assert ("---@return equus.Code? code" in block) == (needs is not None), found[1]


def test_words_are_those_of_the_registry(texts: dict[str, str]) -> None:
    """Capabilities, codes, types and fields in the definitions are those of the registry."""
    both = texts["host.lua"] + texts["check.lua"]
    for alias, values in (("Capability", CAPABILITIES), ("Code", sorted(CODES)), ("ArgumentType", TYPES)):
        block = both.split(f"---@alias equus.{alias}\n", 1)[1].split("\n\n", 1)[0]
        assert re.findall(r'^---\| "([^"]+)"$', block, re.MULTILINE) == list(values)
    for name, fields in (("Check", FIELDS), ("Argument", ARGUMENT_FIELDS)):
        block = both.split(f"---@class equus.{name}\n", 1)[1].split("\n\n", 1)[0]
        assert re.findall(r"^---@field ([a-z]+)", block, re.MULTILINE) == list(fields)


def test_each_named_type_is_defined_once(texts: dict[str, str]) -> None:
    both = texts["host.lua"] + texts["check.lua"]
    defined = re.findall(r"^---@(?:class|alias) (equus\.[A-Za-z_.0-9]+)", both, re.MULTILINE)
    used = re.findall(r"equus\.[A-Za-z_.0-9]*[A-Za-z_0-9]", re.sub(r"^--- .*$|#.*$", "", both, flags=re.MULTILINE))
    assert len(defined) == len(set(defined))
    assert set(used) == set(defined)


def test_libraries_are_as_the_sandbox_loads_them(texts: dict[str, str], told: set[str]) -> None:
    """Each function and value of a library is defined by its name; `os` has what checks may use, and nothing switched
    off.
    """
    said = set()
    for name in LIBRARIES:
        text = texts[f"lib/{name}.lua"]
        said |= {f"{name}.{key}\tfunction" for key in re.findall(r"^function library\.(\w+)\(", text, re.MULTILINE)}
        said |= {f"{name}.{key}\tvalue" for key in re.findall(r"^---@field (\w+) any", text, re.MULTILINE)}
    said |= {f"os.{key}\tfunction" for key in re.findall(r"^function os\.(\w+)\(", texts["globals.lua"], re.MULTILINE)}
    both = {line for line in told if not line.startswith("absent")}
    assert {line.partition("\t")[0] for line in said} == {line.partition("\t")[0] for line in both}
    assert {line for line in said if line.endswith("\tfunction")} <= both
    there = {line for line in told if line.startswith("absent") and not line.endswith("\tnil")}
    assert {line.split("\t")[1] for line in there} == {"os"}  # which globals.lua defines anew


def _accepts(field: Field, value: Any) -> bool:
    """Say if a value is of a field's type; a table need not have all fields."""
    if field.shape:
        items = ([] if value == {} else value) if field.is_list else [value]  # an empty table is a list, too
        known = {each.name: each for each in field.shape}
        return isinstance(items, list) and all(
            isinstance(item, dict) and all(key in known and _accepts(known[key], one) for key, one in item.items())
            for item in items
        )
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    kinds = {
        "any": True, "any[]": isinstance(value, list) or value == {}, "boolean": isinstance(value, bool),
        "string[]": isinstance(value, list) or value == {}, "string": isinstance(value, str), "number": is_number,
        "integer": is_number and value == int(value), "table<string, string>": isinstance(value, dict | list),
    }  # fmt: skip
    return kinds[field.type]


def test_recorded_answers_are_of_the_types() -> None:
    """Each field of the answers in tests of shipped checks has the type that an editor shows."""
    shapes = {call.name: read_shape(call.text, manual().answers) for call in manual().calls}
    shapes["unix"] = shapes["tcp"]
    faults, judged = [], 0
    for path in sorted((ROOT / "checks" / "tests").glob("*.lua")):
        for case in read_cases(path.read_bytes()):
            for name, answers in case.answers.items():
                for value in [each.reply["value"] for each in answers if "value" in each.reply]:
                    shape = shapes.get(name)
                    if shape is not None and name not in OPEN:
                        judged += 1
                        faults += [] if _accepts(shape, value) else [f"{path.name}: {case.name}: {name}: {value}"]
    assert faults == [], "\n".join(faults)
    assert judged > 500


# Shapes that end in "...", or of which the manual says a part in words.
OPEN = {"kernel.vmstat", "kernel.pressure", "kernel.sockets"}


@pytest.mark.parametrize("kind", ["string", "number", "integer", "boolean"])
def test_the_types_of_arguments_are_those_that_calls_take(kind: str) -> None:
    """An argument of another type than the definitions show is refused by each call that takes it."""
    policy = Policy.parse(b"", None)
    wrong: Any = {"a": 1}
    tried = []
    for call in manual().calls:
        for form in [form for form in call.forms if form.startswith(f"host.{call.name}{{")]:
            for name in _named(form):
                if manual().arguments.get(name) == kind:
                    with pytest.raises(CallFailed) as raised:
                        CALLS[call.name].perform([{name: wrong}], policy, Context("x", 1e12))
                    assert raised.value.code in ("bad-arguments", "denied"), (call.name, name)
                    tried.append(name)
    assert len(set(tried)) >= 3


def test_the_list_is_that_of_the_manual() -> None:
    """The list of host calls equals that in docs/checks.rst; after a change there, run `python
    deploy/pages/host_calls.py`.
    """
    source = ROOT / "deploy" / "pages" / "host_calls.py"
    room: dict[str, Any] = {"__name__": "host_calls", "__file__": str(source)}
    exec(compile(source.read_text(), "host_calls.py", "exec"), room)
    made = room["definitions_of"]((ROOT / "docs" / "checks.rst").read_text())
    assert room["DEFINITIONS"].read_text() == room["written_definitions"](made)
    assert list(made["fields"]) and set(made["fields"]) == set(FIELDS)
    arguments = {each for names in made["arguments"].values() for each in names}
    named = {name for call in made["calls"] for form in call["forms"] for name in _named(form)}
    assert named - arguments == {"slot"}


def _named(form: str) -> set[str]:
    """Return the names of arguments in one form of a call."""
    return set(re.findall(r"[a-z_]+", re.split(r"[({]", form, maxsplit=1)[1]))


# ---------------------------------------------------------------------------------------------- the folder


def test_written_twice_it_is_the_same(tmp_path: Path) -> None:
    """A second run leaves out the definitions of a library that now lies in the folder, and writes them again without
    it.
    """
    lua_meta(tmp_path)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "json.lua").write_text("return {}\n")
    assert lua_meta(tmp_path).output.startswith(f"Wrote {2 + len(LIBRARIES)} files")
    assert not (tmp_path / "lua-meta" / "lib" / "json.lua").exists()
    (tmp_path / "lib" / "json.lua").unlink()
    assert lua_meta(tmp_path).exit_code == 0
    assert (tmp_path / "lua-meta" / "lib" / "json.lua").exists()
    assert sorted(os.listdir(tmp_path)) == [".luarc.json", "lib", "lua-meta"]


def test_a_file_of_somebody_else_stays(tmp_path: Path) -> None:
    """A file that `equus lua-meta` did not write stays: nothing is written, and the sentence says what to do."""
    (tmp_path / "lua-meta").mkdir()
    (tmp_path / "lua-meta" / "host.lua").write_text("-- my own\n")
    result = lua_meta(tmp_path)
    assert result.exit_code == 1
    assert "host.lua was not written by `equus lua-meta`: move it away" in result.output
    assert (tmp_path / "lua-meta" / "host.lua").read_text() == "-- my own\n"
    assert sorted(os.listdir(tmp_path / "lua-meta")) == ["host.lua"]


def test_other_settings_stay(tmp_path: Path) -> None:
    """A settings file that exists stays as it is, and the command prints the lines that it needs."""
    (tmp_path / ".luarc.json").write_text('{"hint.enable": true}')
    result = lua_meta(tmp_path)
    assert result.exit_code == 0
    assert '"workspace.library": [\n    "lua-meta"\n  ]' in result.output
    assert (tmp_path / ".luarc.json").read_text() == '{"hint.enable": true}'


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "lua-meta").write_text("a file")
    result = lua_meta(tmp_path)
    assert (result.exit_code, "can't be written" in result.output) == (1, True)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("``{ a (boolean), b_bytes, [c] }``",
         [("a", "boolean", False), ("b_bytes", "integer", False), ("c", "any", True)]),
        ("List of ``{ x, y (all counters) }``", [("x", "number", False), ("y", "number", False)]),
        ('``{ way ("up", "down"), far (boolean or nil) }``', [("way", "string", False), ("far", "boolean", True)]),
        ("``{ names = { ... }, units = { names } }``", [("names", "any[]", False), ("units", "string[]", False)]),
        ("``{ one, and these counters: two, three }``",
         [("one", "any", False), ("two", "number", False), ("three", "number", False)]),
        ("``{ list = { { pid, [at] } } }``", [("list", "table", False)]),
    ],
)  # fmt: skip
def test_shapes(text: str, fields: list[tuple[str, str, bool]]) -> None:
    shape = read_shape(text, {})
    assert shape is not None
    assert [(each.name, each.type, each.optional) for each in shape.shape] == fields
    assert shape.is_list == text.startswith("List")


def test_a_text_without_a_shape() -> None:
    assert read_shape("Seconds since 1970 as a float.", {}) is None
