"""Tests texts of JSON-RPC at both sides of each limit, and each form of what is written and read, byte by byte."""

from __future__ import annotations

import math

import attrs
import pytest

from zerotask.errors import INVALID_REQUEST, PARSE, RpcError
from zerotask.wire import jsonrpc
from zerotask.wire.jsonrpc import Call, Fault, Incoming, Response


def refused(call, *given) -> tuple[int, str]:
    with pytest.raises(RpcError) as caught:
        call(*given)
    return caught.value.code, caught.value.message


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def request(params: bytes = b"[]", number: bytes = b"1") -> bytes:
    return b'{"jsonrpc":"2.0","method":"m","params":' + params + b',"id":' + number + b"}"


def test_the_limits_are_those_of_the_documentation() -> None:
    limits = (jsonrpc.MAX_TEXT, jsonrpc.MAX_BATCH, jsonrpc.MAX_DEPTH, jsonrpc.MAX_PARTS)
    assert limits == (8_388_608, 1_000, 64, 100_000)


@pytest.mark.parametrize("depth, good", [(1, True), (64, True), (65, False), (5_000, False), (100_000, False)])
def test_values_are_nested_64_deep_and_no_deeper(depth: int, good: bool) -> None:
    if good:
        assert jsonrpc.decode(nested(depth)) == eval(nested(depth).decode())
    else:
        message = "nested deeper than 64 levels; send a flatter value"
        assert refused(jsonrpc.decode, nested(depth)) == (PARSE, message)


def test_brackets_beside_each_other_or_in_strings_are_no_depth() -> None:
    assert jsonrpc.decode(b"[" + b",".join([b"[]"] * 200) + b"]") == [[]] * 200
    assert jsonrpc.decode(b'["' + b"[{" * 200 + b'"]') == ["[{" * 200]
    assert jsonrpc.decode(nested(3), depth=3) == [[[]]]
    assert refused(jsonrpc.decode, nested(4), 3)[0] == PARSE
    assert refused(jsonrpc.decode, b'{"a":{"b":[{}]}}', 3)[0] == PARSE
    assert jsonrpc.decode(b'{"a":{"b":[{}]}}', 4) == {"a": {"b": [{}]}}


@pytest.mark.parametrize("params, good", [(63, True), (64, False)])
def test_a_request_is_as_deep_as_a_value(params: int, good: bool) -> None:
    """The request object is the first level of its depth; in a batch, the list around it."""
    [entry] = jsonrpc.parse(request(nested(params))).entries
    assert isinstance(entry, Call) is good
    [entry] = jsonrpc.parse(b"[" + request(nested(params - 1)) + b"]").entries
    assert isinstance(entry, Call) is good


def test_a_text_is_as_long_and_has_as_many_parts_as_it_may(monkeypatch) -> None:
    monkeypatch.setattr(jsonrpc, "MAX_TEXT", 20)
    monkeypatch.setattr(jsonrpc, "MAX_PARTS", 4)
    assert jsonrpc.decode(b"[" + b" " * 18 + b"]") == []
    long = b"[" + b" " * 19 + b"]"
    assert refused(jsonrpc.decode, long) == (PARSE, "a text of more than 20 bytes; send less at once")
    assert refused(jsonrpc.read, long) == (PARSE, "a text of more than 20 bytes")
    assert jsonrpc.decode(b"[[],[],{}]") == [[], [], {}]
    many = b"[[],[],{},[]]"
    assert refused(jsonrpc.decode, many) == (PARSE, "a text of more than 4 arrays and objects; send less at once")
    fault = jsonrpc.parse(many)
    assert not fault.batch and [(entry.id, entry.error.code) for entry in fault.entries] == [(b"null", PARSE)]
    assert jsonrpc.decode(b'["[[[[{{{{"]') == ["[[[[{{{{"]
    assert jsonrpc.decode(b'["a\\"[[[[["]') == ['a"[[[[[']
    assert jsonrpc.decode(b'["\\\\",[],[[]]]') == ["\\", [], [[]]]
    assert jsonrpc.has_too_many_parts(b'["\\\\",[],[[]],[]]')
    assert not jsonrpc.has_too_many_parts(b"[[[[")
    assert jsonrpc.has_too_many_parts(b"[[[[[")
    assert jsonrpc.parts_at_most(b'[{"a[{":[]}]') == 5


BATCH = b"[" + b",".join([request()] * 3) + b"]"


def test_a_batch_has_as_many_elements_as_it_may(monkeypatch) -> None:
    call = Call("m", [], b"1")
    monkeypatch.setattr(jsonrpc, "MAX_BATCH", 3)
    assert jsonrpc.parse(BATCH) == Incoming((call,) * 3, batch=True)
    monkeypatch.setattr(jsonrpc, "MAX_BATCH", 2)
    for text, why in ((BATCH, "a batch of more than 2 elements; send several"), (b"[]", "an empty batch")):
        incoming = jsonrpc.parse(text)
        [entry] = incoming.entries
        assert isinstance(entry, Fault) and not incoming.batch
        assert (entry.id, entry.error.code, entry.error.message) == (b"null", INVALID_REQUEST, why)
    mixed = jsonrpc.parse(b"[" + request() + b",5]")
    assert mixed.batch and mixed.entries[0] == call and isinstance(mixed.entries[1], Fault)


IDS = {
    b'"x"': True, b"-1": True, b"0": True, b"9.5": True, b"null": True, b"[1]": False, b"{}": False, b"true": False,
    b"false": False,
}  # fmt: skip


@pytest.mark.parametrize("number", IDS)
def test_ids_are_texts_numbers_or_null(number: bytes) -> None:
    for text in (request(number=number), b"[" + request(number=number) + b"]"):
        [entry] = jsonrpc.parse(text).entries
        if IDS[number]:
            assert entry == Call("m", [], number)
        else:
            assert isinstance(entry, Fault) and entry.id == b"null" and entry.error.code == INVALID_REQUEST
            assert entry.error.message == 'jsonrpc has to be "2.0", and an id a string, a number or null'


@pytest.mark.parametrize(
    "text, number, why",
    [
        (b'{"jsonrpc":"1.0","method":"m","id":7}', b"7", 'jsonrpc has to be "2.0"'),
        (b'{"jsonrpc":"2.0","method":5,"id":"a"}', b'"a"', "not a request: "),
        (b'{"jsonrpc":"2.0","method":5}', b"null", "not a request: "),
        (b'{"jsonrpc":"2.0","method":5,"id":[1]}', b"null", "not a request: "),
        (b'{"method":"m","id":7}', b"7", "not a request: "),
        (b'{"jsonrpc":"2.0","method":"m","params":"x","id":7}', b"7", "not a request: "),
        (b"5", b"null", "not a request: "),
    ],
)
def test_what_is_no_request_is_answered_under_its_id(text: bytes, number: bytes, why: str) -> None:
    [entry] = jsonrpc.parse(text).entries
    assert isinstance(entry, Fault) and (entry.id, entry.error.code) == (number, INVALID_REQUEST)
    assert entry.error.message.startswith(why)


@pytest.mark.parametrize("text", [b"", b"{", b"nul", b"\xff", b'"\xff"', b"NaN", b'["\\ud800"]'])
def test_what_is_no_json_is_one_fault(text: bytes) -> None:
    incoming = jsonrpc.parse(text)
    [entry] = incoming.entries
    assert isinstance(entry, Fault) and not incoming.batch and (entry.id, entry.error.code) == (b"null", PARSE)
    assert refused(jsonrpc.decode, text)[1].startswith("not JSON: ")


def test_requests_and_notifications_without_params() -> None:
    assert jsonrpc.parse(b'{"jsonrpc":"2.0","method":"m"}') == Incoming((Call("m", [], None),), batch=False)
    assert jsonrpc.parse(request(b'{"a":1}')).entries == (Call("m", {"a": 1}, b"1"),)


# ------------------------------------------------------------------------------- what is written


@attrs.frozen
class Point:
    """Stands for a value with a number inside."""

    x: float
    y: float | None = None


@pytest.mark.parametrize(
    "value", [math.nan, [math.inf], {"a": -math.inf}, (1, (math.nan,)), {"a": [{"b": math.nan}]}, Point(math.nan)]
)
def test_no_number_is_no_json(value: object) -> None:
    with pytest.raises(ValueError, match="NaN and infinity are no JSON"):
        jsonrpc.encode(value)


def test_null_itself_is_json() -> None:
    assert jsonrpc.encode([None, 1.5, "null", {"a": None}, (None,)]) == b'[null,1.5,"null",{"a":null},[null]]'
    assert jsonrpc.encode(Point(1.0)) == b'{"x":1.0,"y":null}'
    assert jsonrpc.canonical({"b": {"d": 1, "c": 2}, "a": 0}) == b'{"a":0,"b":{"c":2,"d":1}}'


def test_each_text_that_goes_out() -> None:
    assert jsonrpc.result(b'"x"', [1]) == b'{"jsonrpc":"2.0","result":[1],"id":"x"}'
    plain = b'{"jsonrpc":"2.0","error":{"code":-5,"message":"m"},"id":1}'
    assert jsonrpc.failure(b"1", RpcError(-5, "m")) == plain
    with_data = b'{"jsonrpc":"2.0","error":{"code":-5,"message":"m","data":{"a":1}},"id":1}'
    assert jsonrpc.failure(b"1", RpcError(-5, "m", {"a": 1})) == with_data
    assert jsonrpc.batch([b"1", b"2"]) == b"[1,2]" and jsonrpc.batch([b"1"]) == b"[1]"
    assert jsonrpc.bundle([b"1"]) == b"1" and jsonrpc.bundle([b"1", b"2"]) == b"[1,2]"
    assert jsonrpc.request("m", [1], 5) == b'{"jsonrpc":"2.0","method":"m","params":[1],"id":5}'
    assert jsonrpc.request("m", {}, "a") == b'{"jsonrpc":"2.0","method":"m","params":{},"id":"a"}'
    assert jsonrpc.notification("m", [1]) == b'{"jsonrpc":"2.0","method":"m","params":[1]}'
    assert jsonrpc.prefix("m") == b'{"jsonrpc":"2.0","method":"m","params":['
    assert jsonrpc.prefix("m", "a") == b'{"jsonrpc":"2.0","method":"m","params":["a"'
    assert jsonrpc.notification("m", ["a", 1]).startswith(jsonrpc.prefix("m", "a"))


# ------------------------------------------------------------------------------- what is read


def test_a_client_reads_answers_and_notifications() -> None:
    assert jsonrpc.read(b'{"jsonrpc":"2.0","result":5,"id":1}') == [Response(1, 5, None)]
    assert jsonrpc.read(b'[{"jsonrpc":"2.0","method":"m","params":[1]},{"jsonrpc":"2.0","method":"n"}]') == [
        Call("m", [1], None), Call("n", [], None),
    ]  # fmt: skip
    [answer] = jsonrpc.read(b'{"jsonrpc":"2.0","error":{"code":-1,"message":"m","data":[2]},"id":"x"}')
    assert isinstance(answer, Response) and (answer.id, answer.result) == ("x", None) and answer.error is not None
    assert (answer.error.code, answer.error.message, answer.error.data) == (-1, "m", [2])
    for text in (b"5", b"[5]", b'{"result":5}', b'{"jsonrpc":"1.0","result":5}'):
        assert refused(jsonrpc.read, text) == (PARSE, "neither a response nor a notification of JSON-RPC 2.0")
    for error in (
        b"5",
        b"{}",
        b'{"code":1}',
        b'{"message":"m"}',
        b'{"code":true,"message":"m"}',
        b'{"code":1,"message":2}',
    ):
        assert refused(jsonrpc.read, b'{"jsonrpc":"2.0","id":1,"error":' + error + b"}") == (
            PARSE, "an error object without code and message",
        )  # fmt: skip
