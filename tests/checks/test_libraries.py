"""The libraries of the shipped checks that read other people's formats: JSON, hexadecimal digits, base64."""

import base64
import json
import random
from pathlib import Path

import helen_checks
from equus.code.check_files import read_check_files
from equus.sandbox.blocking import Sandbox
from equus.sandbox.job import Job

LIBRARIES = read_check_files(Path(helen_checks.FOLDER)).libraries
# Writes each value in a form of its own, so that a wrong one cannot be hidden by a codec that is wrong both ways.
SHOW = b"""
return { summary = "a test", args = { texts = { type = "list", required = true } }, run = function(args, host)
  local json, hex = require "json", require("bytes").hex
  local function show(value)
    if type(value) ~= "table" then
      if type(value) == "string" then return "s:" .. hex(value) end
      if math.type(value) == "integer" then return "i:" .. value end
      return type(value) == "number" and string.format("d:%.17g", value) or tostring(value)
    end
    if value == json.null then return "null" end
    local keys, parts = {}, {}
    for key in pairs(value) do keys[#keys + 1] = key end
    table.sort(keys)
    for _, key in ipairs(keys) do
      parts[#parts + 1] = (type(key) == "number" and "" or hex(key) .. "=") .. show(value[key])
    end
    return "{" .. table.concat(parts, ",") .. "}"
  end
  for _, text in ipairs(args.texts) do
    local value, why = json.decode(text)
    print(why and "!" .. why or show(value))
  end
  return "ok", "done"
end }
"""


def run(source: bytes, **args: object) -> list[str]:
    """The lines that a check prints."""
    with Sandbox() as sandbox:
        job = Job("t", source, LIBRARIES, json.dumps(args).encode(), timeout=20.0, pushed=False)
        document = json.loads(sandbox.run(job))
    assert (document["status"], document["summary"]) == ("ok", "done"), document
    return document["output"].splitlines()


def shown(value: object, inside: bool = False) -> str:
    """The same in Python; null is no entry of a table with names."""
    if isinstance(value, str):
        return "s:" + value.encode("utf-8", "replace").hex()
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        return f"i:{value}"
    if isinstance(value, float):
        return f"d:{value:.17g}"
    if isinstance(value, list):
        return "{" + ",".join(shown(each) for each in value) + "}"
    assert isinstance(value, dict)
    parts = [(key, each) for key, each in sorted(value.items()) if each is not None]
    return "{" + ",".join(f"{key.encode().hex()}={shown(each)}" for key, each in parts) + "}"


def some_value(chance: random.Random, depth: int) -> object:
    kind = chance.randrange(9 if depth else 6)
    if kind < 6:
        words = ["", "a", 'q"\\/\b\f\n\r\t', "é€😀", "\x7f\x00\x1f"]
        numbers = [0, -1, 2**53, 1.5, -2.5e-7, 1e300]
        return [None, True, False, chance.choice(words), chance.choice(numbers), chance.randrange(-(10**15), 10**15)][
            kind
        ]
    count = chance.randrange(5)
    if kind == 6:
        return {f"k{chance.randrange(100)}é": some_value(chance, depth - 1) for _ in range(count)}
    return [some_value(chance, depth - 1) for _ in range(count)]


def test_json_that_is_json():
    """150 documents, written in both ways that there are, give what Python reads from them."""
    chance = random.Random(4)
    values = [some_value(chance, 4) for _ in range(150)]
    texts = [json.dumps(value, ensure_ascii=chance.random() < 0.5, indent=chance.choice([None, 1])) for value in values]
    assert run(SHOW, texts=texts) == [shown(value) for value in values]


def test_json_that_is_none():
    """Each is refused with the place of the fault; the recursion has an end."""
    broken = {
        "": "no value at byte 1",
        "[1,]": "no value at byte 4",
        '{"a" 1}': "a colon is missing at byte 6",
        "{1:2}": "a name is missing at byte 2",
        "[1 2]": "a comma is missing at byte 4",
        **dict.fromkeys(("01", "1.", "+1", "nul", "NaN", "truefalse"), "no value at byte 1"),
        '"\x01"': "a control character at byte 2",
        '"\\x"': "a bad escape at byte 2",
        '"abc': "a text without an end at byte 1",
        "[" * 100: "too deep at byte 65",
        "{}  {}": "something follows at byte 5",
    }
    assert run(SHOW, texts=list(broken)) == [f"!{why}" for why in broken.values()]


def test_half_a_pair_of_surrogates():
    """One without its other half is U+FFFD, as wherever text comes in."""
    assert run(SHOW, texts=['"\\ud83d\\ude00"', '"\\ud83dx"', '"\\ude00"']) == [
        "s:" + text.encode().hex() for text in ("😀", "\ufffdx", "\ufffd")
    ]


def test_digits_and_base64():
    """Every byte, every length of rest, and what is neither."""
    source = b"""return { summary = "a test", args = { hex = { type = "list" }, sums = { type = "list" } },
    run = function(args, host)
      local bytes = require "bytes"
      local hex = bytes.hex
      for index, digits in ipairs(args.hex) do
        local text = bytes.of(digits)
        print(hex(text), bytes.base64(text), hex(bytes.of_base64(args.sums[index])), hex(bytes.xor(text, text)))
      end
      print(bytes.of("0"), bytes.of("0g"), bytes.of_base64("abc"), bytes.of_base64("ab=c"), bytes.of_base64("a*bc"))
      return "ok", "done"
    end }"""
    data = [bytes(range(start, start + length)) for start in (0, 100, 200) for length in range(56)]
    sums = [base64.b64encode(one).decode() for one in data]
    lines = run(source, hex=[one.hex() for one in data], sums=sums)
    assert lines == [
        *(f"{one.hex()}\t{told}\t{one.hex()}\t{bytes(len(one)).hex()}" for one, told in zip(data, sums, strict=True)),
        "\t".join(["nil"] * 5),
    ]


def test_numbers_from_outside():
    """What is none, or not finite, is nil: a metric must never be that."""
    source = b"""return { summary = "a test", args = { texts = { type = "list" } }, run = function(args, host)
      for _, text in ipairs(args.texts) do print((require("words").number(text))) end
      print((require("words").number(nil)))
      return "ok", "done"
    end }"""
    texts = ["1", "-2.5", "1e3", "1e999", "-1e999", "nan", "inf", "", "x", "0x10"]
    assert run(source, texts=texts) == ["1", "-2.5", "1000.0", *["nil"] * 6, "16", "nil"]
