"""Tests JSON-RPC 2.0: the standard's examples, ids as texts, limits from both sides, two ways of reading
in agreement.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zerotask.errors import INVALID_REQUEST, PARSE, UNKNOWN_METHOD, RpcError
from zerotask.wire import jsonrpc
from zerotask.wire.jsonrpc import MAX_BATCH, MAX_DEPTH, MAX_TEXT, Call, Fault


def subtract(params):
    return params[0] - params[1] if isinstance(params, list) else params["minuend"] - params["subtrahend"]


METHODS = {"subtract": subtract, "sum": sum, "get_data": lambda params: ["hello", 5], "notify_hello": lambda params: 0}


def served(text: bytes) -> object:
    """Return what a server with the standard's methods answers; None is no answer."""
    incoming, answers = jsonrpc.parse(text), []
    for entry in incoming.entries:
        if isinstance(entry, Fault):
            answers.append(jsonrpc.failure(entry.id, entry.error))
        elif entry.id is not None and entry.method in METHODS:
            answers.append(jsonrpc.result(entry.id, METHODS[entry.method](entry.params)))
        elif entry.id is not None:
            answers.append(jsonrpc.failure(entry.id, RpcError(UNKNOWN_METHOD, "Method not found")))
    if not answers:
        return None
    return json.loads(jsonrpc.batch(answers) if incoming.batch else answers[0])


def good(id: object, result: object) -> dict:
    return {"jsonrpc": "2.0", "result": result, "id": id}


def bad(id: object, code: int) -> dict:
    return {"code": code, "id": id}


EXAMPLES = {
    "positional": ('{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}', good(1, 19)),
    "positional, other way": ('{"jsonrpc": "2.0", "method": "subtract", "params": [23, 42], "id": 2}', good(2, -19)),
    "named": (
        '{"jsonrpc": "2.0", "method": "subtract", "params": {"subtrahend": 23, "minuend": 42}, "id": 3}',
        good(3, 19),
    ),
    "named, other order": (
        '{"jsonrpc": "2.0", "method": "subtract", "params": {"minuend": 42, "subtrahend": 23}, "id": 4}',
        good(4, 19),
    ),
    "notification": ('{"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}', None),
    "notification without params": ('{"jsonrpc": "2.0", "method": "foobar"}', None),
    "no such method": ('{"jsonrpc": "2.0", "method": "foobar", "id": "1"}', bad("1", -32601)),
    "invalid JSON": ('{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]', bad(None, -32700)),
    "invalid request": ('{"jsonrpc": "2.0", "method": 1, "params": "bar"}', bad(None, -32600)),
    "batch of invalid JSON": (
        '[{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},{"jsonrpc": "2.0", "method"]',
        bad(None, -32700),
    ),
    "empty array": ("[]", bad(None, -32600)),
    "invalid batch of one": ("[1]", [bad(None, -32600)]),
    "invalid batch": ("[1,2,3]", [bad(None, -32600)] * 3),
    "batch": (
        """[{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},
        {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]},
        {"jsonrpc": "2.0", "method": "subtract", "params": [42,23], "id": "2"},
        {"foo": "boo"},
        {"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"},
        {"jsonrpc": "2.0", "method": "get_data", "id": "9"}]""",
        [good("1", 7), good("2", 19), bad(None, -32600), bad("5", -32601), good("9", ["hello", 5])],
    ),
    "batch of notifications": (
        """[{"jsonrpc": "2.0", "method": "notify_sum", "params": [1,2,4]},
        {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}]""",
        None,
    ),
}


def shape(answer: object) -> object:
    """Return an error object's code and id; its words are the server's own."""
    if isinstance(answer, list):
        return [shape(one) for one in answer]
    if isinstance(answer, dict) and "error" in answer:
        assert answer["jsonrpc"] == "2.0" and isinstance(answer["error"]["message"], str)
        return bad(answer["id"], answer["error"]["code"])
    return answer


@pytest.mark.parametrize("text, expected", EXAMPLES.values(), ids=EXAMPLES)
def test_the_examples_of_the_standard(text, expected):
    assert shape(served(text.encode())) == expected


@pytest.mark.parametrize("id", ["0", "-7", "1.50", "1e2", "12345678901234567890123", '"\\u00fc"', '""', "null"])
def test_an_id_goes_back_as_the_text_it_was(id):
    text = f'{{"jsonrpc":"2.0","method":"get_data","id":{id}}}'.encode()
    (call,) = jsonrpc.parse(text).entries
    assert jsonrpc.result(call.id, 1) == f'{{"jsonrpc":"2.0","result":1,"id":{id}}}'.encode()


@pytest.mark.parametrize("id", ["[1]", "{}", "true", "false"])
def test_other_ids_are_invalid(id):
    (fault,) = jsonrpc.parse(f'{{"jsonrpc":"2.0","method":"x","id":{id}}}'.encode()).entries
    assert (fault.id, fault.error.code) == (b"null", INVALID_REQUEST)


def test_an_invalid_request_keeps_its_id_where_it_has_one():
    (fault,) = jsonrpc.parse(b'{"jsonrpc":"1.0","method":"x","id":"a"}').entries
    assert (fault.id, fault.error.code) == (b'"a"', INVALID_REQUEST)


def nested(depth: int) -> bytes:
    """Return a request whose whole text is nested this deep."""
    return b'{"jsonrpc":"2.0","method":"x","id":1,"params":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


def test_depth_has_a_limit():
    """The depth is counted from the outside of the text, so that a batch takes one level of it."""
    for before, after, deepest in ((b"", b"", MAX_DEPTH), (b"[", b"]", MAX_DEPTH - 1)):
        (call,), (fault,) = (jsonrpc.parse(before + nested(d) + after).entries for d in (deepest, deepest + 1))
        assert isinstance(call, Call)
        assert (fault.id, fault.error.code) == (b"null", PARSE)


def test_brackets_in_texts_are_no_depth():
    text = json.dumps({"jsonrpc": "2.0", "method": "x", "params": ["[{" * 500], "id": 1}).encode()
    assert jsonrpc.parse(text).entries == (Call("x", ["[{" * 500], b"1"),)


def test_many_flat_calls_are_no_depth():
    one = b'{"jsonrpc":"2.0","method":"x","params":[[1]]}'
    assert jsonrpc.parse(jsonrpc.batch([one] * 100)).entries == (Call("x", [[1]], None),) * 100


def test_parts_have_a_limit(monkeypatch):
    """Arrays and objects count, but not the brackets in texts, with any escape there."""
    monkeypatch.setattr(jsonrpc, "MAX_PARTS", 5)
    call = '{"jsonrpc":"2.0","method":"m","params":[%s],"id":1}'
    assert isinstance(jsonrpc.parse((call % "[],{},[]").encode()).entries[0], jsonrpc.Call)
    (fault,) = jsonrpc.parse((call % "[],{},[],{}").encode()).entries
    assert fault.error.code == -32700 and "more than 5 arrays and objects" in fault.error.message
    texts = '"[[[[", "]]{{{", "\\"[[[[", "\\\\", "[[["'
    assert isinstance(jsonrpc.parse((call % texts).encode()).entries[0], jsonrpc.Call)


@pytest.mark.adversary(65)
def test_a_batch_has_a_limit():
    one = b'{"jsonrpc":"2.0","method":"x"}'
    whole = jsonrpc.parse(jsonrpc.batch([one] * MAX_BATCH))
    assert whole.batch and whole.entries == (Call("x", [], None),) * MAX_BATCH
    (fault,) = jsonrpc.parse(jsonrpc.batch([one] * (MAX_BATCH + 1))).entries
    assert fault.error.code == INVALID_REQUEST


@pytest.mark.adversary(65)
def test_a_batch_of_100000_is_one_fault():
    """A batch of 100,000 calls is refused whole, in one answer, before any of it is read as a call."""
    one = b'{"jsonrpc":"2.0","method":"x","id":1}'
    (fault,) = jsonrpc.parse(jsonrpc.batch([one] * 100_000)).entries
    assert (fault.id, fault.error.code) == (b"null", PARSE)


def test_a_text_has_a_limit():
    most = b'{"jsonrpc":"2.0","method":"x","params":["' + b"x" * (MAX_TEXT - 44) + b'"]}'
    assert len(most) == MAX_TEXT and isinstance(jsonrpc.parse(most).entries[0], Call)
    (fault,) = jsonrpc.parse(most + b" ").entries
    assert fault.error.code == PARSE


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999", '"\\ud800"', "01", "'a'", '"\xff"'])
def test_what_other_readers_could_not_read_is_no_json(value):
    text = f'{{"jsonrpc":"2.0","method":"x","params":[{value}],"id":1}}'.encode("latin-1")
    (fault,) = jsonrpc.parse(text).entries
    assert (fault.id, fault.error.code) == (b"null", PARSE)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
near_requests = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "1.0", 2.0]),
        "method": st.text(max_size=4) | values,
        "params": values,
        "id": values,
    },
)


@settings(max_examples=60, deadline=None)
@given(st.one_of(near_requests, st.lists(near_requests, max_size=4), values))
def test_the_fast_way_and_the_careful_way_agree(value):
    """The careful way takes a text that the fast way takes to mean the same, and never as a fault."""
    text = jsonrpc.encode(value)
    fast = jsonrpc._parse_well_formed(text)
    assert fast is None or fast == jsonrpc._parse_any(text)
    assert fast is not None or any(isinstance(entry, Fault) for entry in jsonrpc._parse_any(text).entries)


@pytest.mark.adversary(65)
@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_understood_or_refused(text):
    assert jsonrpc.parse(text).entries


@settings(max_examples=60, deadline=None)
@given(values)
def test_what_is_encoded_is_decoded(value):
    assert jsonrpc.decode(jsonrpc.canonical(value)) == value


def test_a_client_reads_answers_errors_and_notifications():
    answers = [
        jsonrpc.result(b"1", [None]),
        jsonrpc.failure(b"2", RpcError(-5, "no", {"x": 1})),
        jsonrpc.notification("n", ["a"]),
    ]
    first, second, third = jsonrpc.read(jsonrpc.batch(answers))
    assert (first.id, first.result, first.error) == (1, [None], None)
    assert (second.id, second.error.code, second.error.message, second.error.data) == (2, -5, "no", {"x": 1})
    assert third == Call("n", ["a"], None)


@pytest.mark.parametrize("text", [b"7", b"{}", b'{"jsonrpc":"2.0","id":1,"error":{"code":"x"}}', b"["])
def test_a_client_refuses_what_is_no_answer(text):
    with pytest.raises(RpcError) as refusal:
        jsonrpc.read(text)
    assert refusal.value.code == PARSE


def test_a_prefix_is_how_notifications_begin():
    text = jsonrpc.notification("zerotask.node.broker_new_task", ["add", "t1"])
    assert text.startswith(jsonrpc.prefix("zerotask.node.broker_new_task", "add"))
    assert not text.startswith(jsonrpc.prefix("zerotask.node.broker_new_task", "ad"))
    assert text.startswith(jsonrpc.prefix("zerotask.node.broker_new_task"))
