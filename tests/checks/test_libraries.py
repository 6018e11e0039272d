"""Test the libraries of the shipped checks that read foreign formats: JSON, hexadecimal digits, base64, BER."""

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
    """Run a check, and return the lines that it prints."""
    with Sandbox() as sandbox:
        job = Job("t", source, LIBRARIES, json.dumps(args).encode(), timeout=20.0, pushed=False)
        document = json.loads(sandbox.run(job))
    assert (document["status"], document["summary"]) == ("ok", "done"), document
    return document["output"].splitlines()


def shown(value: object, inside: bool = False) -> str:
    """Return the lines that the check prints, made in Python; null is no entry of a table with names."""
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
    """150 documents, written in both ways that there are, are read as Python reads them."""
    chance = random.Random(4)
    values = [some_value(chance, 4) for _ in range(150)]
    texts = [json.dumps(value, ensure_ascii=chance.random() < 0.5, indent=chance.choice([None, 1])) for value in values]
    assert run(SHOW, texts=texts) == [shown(value) for value in values]


def test_json_that_is_none():
    """Text that is no JSON is refused with the place of the fault, and deep nesting at a limit."""
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
    """Half a pair of surrogates becomes U+FFFD."""
    assert run(SHOW, texts=['"\\ud83d\\ude00"', '"\\ud83dx"', '"\\ude00"']) == [
        "s:" + text.encode().hex() for text in ("😀", "\ufffdx", "\ufffd")
    ]


def test_digits_and_base64():
    """Digits and base64 are written and read for every byte and every length of rest, and refused if they are
    neither.
    """
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
    """A text that is no finite number is read as nil, because a metric must be finite."""
    source = b"""return { summary = "a test", args = { texts = { type = "list" } }, run = function(args, host)
      for _, text in ipairs(args.texts) do print((require("words").number(text))) end
      print((require("words").number(nil)))
      return "ok", "done"
    end }"""
    texts = ["1", "-2.5", "1e3", "1e999", "-1e999", "nan", "inf", "", "x", "0x10"]
    assert run(source, texts=texts) == ["1", "-2.5", "1000.0", *["nil"] * 6, "16", "nil"]


BER = b"""return { summary = "a test", args = { hex = { type = "list" } }, run = function(args, host)
  local ber, bytes, faults = require "ber", require "bytes", require "faults"
  local function tree(reader)
    local parts = {}
    while not reader:is_done() do
      local tag, contents = reader:next()
      local text = bytes.hex(contents)
      if tag & 0x20 ~= 0 then text = tree(ber.reader(contents)) end
      if tag == ber.INTEGER then text = tostring(ber.signed(contents)) end
      if tag == ber.OID then text = ber.identifier(contents) end
      parts[#parts + 1] = string.format("%02x:%s", tag, text)
    end
    return "(" .. table.concat(parts, " ") .. ")"
  end
  for _, digits in ipairs(args.hex) do
    local data = bytes.of(digits)
    local text, _, fault = faults.guarded(function() return tree(ber.reader(data)) end)
    print(text or fault)
  end
  return "ok", "done"
end }"""


def test_ber_as_ldap_writes_it() -> None:
    """BER of LDAP is read (a bind, its answer, a search entry of RFC 4511), and faulty BER is refused with the
    reason.
    """
    broken = {
        "3003020101ff": "the answer is no BER: it ends too early",
        "300402020100": "(30:(02:256))",
        "3005020101": "the answer is no BER: an element is longer than what is around it",
        "0200": "the answer is no BER: a number has 0 bytes",
        "0209000000000000000001": "the answer is no BER: a number has 9 bytes",
        "1f8101": "the answer is no BER: a tag has more than one byte",
        "3080020101": "the answer is no BER: a length is not given, or has too many bytes",
        "0685ffffffff7f": "the answer is no BER: a length is not given, or has too many bytes",
        "0606ffffffffff7f": "the answer is no BER: a part of an object identifier has more than 32 bits",
        "0681" + "82" + "01" * 130: "the answer is no BER: an object identifier has too many parts",
    }
    good = {
        "300c020101600702010304008000": "(30:(02:1 60:(02:3 04: 80:)))",
        "300c02010161070a010004000400": "(30:(02:1 61:(0a:00 04: 04:)))",
        "30840000000502010442 00".replace(" ", ""): "(30:(02:4 42:))",
        "02047fffffff": "(02:2147483647)",
        "0201ff": "(02:-1)",
        "02087fffffffffffffff": "(02:9223372036854775807)",
        "06032a8648": "(06:1.2.840)",
        "06032a8001": "the answer is no BER: an object identifier has an empty part",
        "06032a8688": "the answer is no BER: an object identifier ends too early",
        "06062a864886f70d": "(06:1.2.840.113549)",
        "060388 3703".replace(" ", ""): "(06:2.999.3)",
        "0601 00".replace(" ", ""): "(06:0.0)",
        "0600": "(06:0.0)",
        "01010004026869": "(01:00 04:6869)",
    }
    both = broken | good
    assert run(BER, hex=list(both)) == list(both.values())


def test_ber_that_is_made() -> None:
    """BER is made with numbers in as few bytes as hold them, long lengths and object identifiers, and its size
    is read.
    """
    source = b"""return { summary = "a test", args = {}, run = function(args, host)
      local ber, hex = require "ber", require("bytes").hex
      for _, number in ipairs { 0, 127, 128, -128, -129, 255, 256, 2147483648, math.maxinteger, math.mininteger } do
        print(hex(ber.integer(number)))
      end
      print(hex(ber.oid("1.3.6.1.4.1.311.21.20")), hex(ber.oid(".2.999.3")))
      print(hex(ber.boolean(true)), hex(ber.integer(3, ber.ENUMERATED)))
      for _, size in ipairs { 127, 128, 256, 70000 } do
        local made = ber.element(ber.TEXT, ("x"):rep(size))
        print(hex(made:sub(1, #made - size)), ber.size(made:sub(1, 6)), #made, ber.size("0"))
      end
      for _, text in ipairs { "", "1", "1.40", "3.1", "1.3.x", "1..3", "1.3.4294967296", "1.3" .. (".1"):rep(127) } do
        print(require("faults").guarded(ber.oid, text))
      end
      return "ok", "done"
    end }"""
    numbers = [0, 127, 128, -128, -129, 255, 256, 2**31, 2**63 - 1, -(2**63)]
    contents = [one.to_bytes((one if one >= 0 else ~one).bit_length() // 8 + 1, "big", signed=True) for one in numbers]
    expected = [f"02{len(one):02x}{one.hex()}" for one in contents]
    expected += ["06092b0601040182371514\t0603883703", "0101ff\t0a0103"]
    heads = {127: "047f", 128: "048180", 256: "04820100", 70000: "0483011170"}
    expected += [f"{head}\t{size + len(head) // 2}\t{size + len(head) // 2}\tnil" for size, head in heads.items()]
    bad = ["", "1", "1.40", "3.1", "1.3.x", "1..3", "1.3.4294967296", "1.3" + ".1" * 127]
    expected += [f"nil\tbad-arguments\t{text} is no object identifier such as 1.3.6.1.2.1.1.3.0" for text in bad]
    assert run(source) == expected


def test_binary_texts_of_devices() -> None:
    """A value of a device is printed as a text without its end, or as digits if it is no text."""
    source = b"""return { summary = "a test", args = { hex = { type = "list" } }, run = function(args, host)
      local snmp, bytes = require "snmp", require "bytes"
      for _, digits in ipairs(args.hex) do print(snmp.text({ type = "text", value = bytes.of(digits) })) end
      print(snmp.text({ type = "gauge", value = 7 }), snmp.text({ type = "null" }))
      return "ok", "done"
    end }"""
    texts = {b"eth0\0": "eth0", b"R\xc3\xbcck 7 \r\n": "Rück 7", b"\x00\x1a\x2b": "00:1a:2b", b"a\x07b": "61:07:62",
             b"\xff" * 40: ":".join(["ff"] * 32), b"": ""}  # fmt: skip
    assert run(source, hex=[one.hex() for one in texts]) == [*texts.values(), "7\tnil"]
