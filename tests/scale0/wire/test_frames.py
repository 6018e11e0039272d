"""Tests that frames which are no message of any dialect are refused with a sentence."""

from __future__ import annotations

import pytest

from scale0.wire import frames
from scale0.wire.frames import CLIENT, D1, D2, D2E, EITHER, S0, S0E, WORKER, MalformedMessage, Message

NO_MESSAGES = {
    "READY without a service": [b"MDPW02", b"\1"],
    "READY with two services": [b"MDPW02", b"\1", b"tea", b"coffee"],
    "READY with two in the older dialect": [b"", b"MDPW01", b"\1", b"tea", b"coffee"],
    "a reply without a body": [b"MDPW02", b"\4", b"token", b""],
    "a reply whose second frame is not empty": [b"MDPW02", b"\4", b"token", b"x", b"body"],
    "a heartbeat with a frame": [b"MDPW02", b"\5", b"x"],
    "no command": [b"MDPW02", b"\x09"],
    "nothing behind the name": [b"MDPW02"],
}


@pytest.mark.parametrize("case", NO_MESSAGES)
def test_what_is_no_message_of_a_worker_is_refused(case: str) -> None:
    with pytest.raises(MalformedMessage):
        frames.parse(NO_MESSAGES[case])


def test_ready_names_one_service() -> None:
    message = frames.parse([b"MDPW02", b"\1", b"tea"])
    assert (message.command, message.service) == ("READY", "tea")


# --------------------------------------------------------------------------- what is read, dialect by dialect

C1, W1, C2, W2, S = b"MDPC01", b"MDPW01", b"MDPC02", b"MDPW02", b"SCALE0"
READ = [
    ([b"", C1, b"tea", b"x", b""], Message(D1, CLIENT, "REQUEST", "tea", body=[b"x", b""])),
    ([C2, b"\1", b"tea", b"x"], Message(D2, CLIENT, "REQUEST", "tea", body=[b"x"])),
    ([b"", C2, b"\1", b"tea", b"x", b"y"], Message(D2E, CLIENT, "REQUEST", "tea", body=[b"x", b"y"])),
    ([b"", W1, b"\1", b"tea"], Message(D1, WORKER, "READY", "tea")),
    ([b"", W1, b"\3", b"t", b"", b"x"], Message(D1, WORKER, "FINAL", token=b"t", body=[b"x"])),
    ([b"", W1, b"\4"], Message(D1, WORKER, "HEARTBEAT")),
    ([b"", W1, b"\5"], Message(D1, WORKER, "DISCONNECT")),
    ([W2, b"\1", b"tea"], Message(D2, WORKER, "READY", "tea")),
    ([W2, b"\3", b"t", b"", b"x"], Message(D2, WORKER, "PARTIAL", token=b"t", body=[b"x"])),
    ([b"", W2, b"\4", b"t", b"", b"x", b"y"], Message(D2E, WORKER, "FINAL", token=b"t", body=[b"x", b"y"])),
    ([b"", W2, b"\5"], Message(D2E, WORKER, "HEARTBEAT")),
    ([W2, b"\6"], Message(D2, WORKER, "DISCONNECT")),
    ([S, b"\1", b"READY", b"{}"], Message(S0, EITHER, "READY", version=1, options=b"{}", body=[])),
    ([b"", S, b"\2", b"A" * 70, b"o", b"x"], Message(S0E, EITHER, "A" * 64, version=2, options=b"o", body=[b"x"])),
    ([S, b"\0", b"\xff", b""], Message(S0, EITHER, "\ufffd", version=0, options=b"", body=[])),
]


@pytest.mark.parametrize("sent, message", READ)
def test_each_message_is_read_with_all_its_parts(sent: list[bytes], message: Message) -> None:
    assert frames.parse(sent) == message


REFUSED = [
    ([], "no header"),
    ([b""], "no header"),
    ([C1, b"tea", b"x"], "unsupported dialect: b'MDPC01'"),
    ([W1, b"\1", b"tea"], "unsupported dialect: b'MDPW01'"),
    ([b"", b"x" * 20], "unsupported dialect: b'xxxxxxxxxxxxxxxx'"),
    ([b"y" * 20], "unsupported dialect: b'yyyyyyyyyyyyyyyy'"),
    ([S, b"\1", b"READY"], "SCALE0 is followed by a version of one byte, a command and options"),
    ([S, b"\1\1", b"READY", b"{}"], "SCALE0 is followed by"),
    ([S, b"", b"READY", b"{}"], "SCALE0 is followed by"),
    ([C2], "a client of MDP/0.2 sends REQUEST and nothing else"),
    ([C2, b"\2", b"tea", b"x"], "a client of MDP/0.2 sends REQUEST and nothing else"),
    ([C2, b"\1", b"tea"], "a request has a service and at least one frame of body"),
    ([b"", C1, b"tea"], "a request has a service and at least one frame of body"),
    ([b"", C1], "a request has a service and at least one frame of body"),
    ([b"", C1, b"\xff", b"x"], "a service name is UTF-8"),
    ([b"", C1, b"", b"x"], "a service name has 1 to 255 bytes and no control characters"),
    ([b"", C1, b"a\nb", b"x"], "a service name has 1 to 255 bytes"),
    ([b"", W1, b"\6"], "no command of a worker"),
    ([b"", W1, b"\2"], "no command of a worker"),
    ([W2, b"\6", b"x"], "no command of a worker"),
    ([W2, b"\3", b"t", b""], "a reply has an address, an empty frame and at least one frame of body"),
    ([W2, b"\3", b"t", b"x", b"y"], "a reply has an address"),
    ([W2, b"\1"], "READY has one service"),
    ([W2, b"\1", b"a", b"b"], "READY has one service"),
]


@pytest.mark.parametrize("sent, why", REFUSED)
def test_each_refusal_says_why(sent: list[bytes], why: str) -> None:
    with pytest.raises(MalformedMessage) as caught:
        frames.parse(sent)
    assert str(caught.value).startswith(why)


@pytest.mark.parametrize(
    "name, good",
    [("a", True), ("a" * 255, True), ("a" * 256, False), ("\u00e9" * 127, True), ("\u00e9" * 128, False), ("", False)],
)
def test_a_service_name_has_1_to_255_bytes(name: str, good: bool) -> None:
    assert frames.is_service_name(name) is good


# --------------------------------------------------------------------------- what is written


def test_scale0_is_written_in_the_form_of_the_other_side() -> None:
    assert frames.scale0(S0, "FINAL", b"{}", [b"x", b"y"]) == [S, b"\1", b"FINAL", b"{}", b"x", b"y"]
    assert frames.scale0(S0E, "CANCEL", b"{}") == [b"", S, b"\1", b"CANCEL", b"{}"]


TO_CLIENT = [
    (D1, True, [b"x"], [b"", C1, b"tea", b"x"]),
    (D1, False, [], [b"", C1, b"tea", b""]),
    (D2, True, [b"x", b"y"], [C2, b"\3", b"tea", b"x", b"y"]),
    (D2, False, [b"x"], [C2, b"\2", b"tea", b"x"]),
    (D2E, True, [], [b"", C2, b"\3", b"tea", b""]),
    (D2E, False, [b"x"], [b"", C2, b"\2", b"tea", b"x"]),
]


@pytest.mark.parametrize("dialect, final, body, sent", TO_CLIENT)
def test_replies_to_clients_frame_by_frame(dialect, final, body, sent) -> None:
    assert frames.to_client(dialect, final, "tea", body) == sent


TO_WORKER = [
    (D1, "REQUEST", [b"", W1, b"\2", b"t", b"", b"x"]),
    (D1, "HEARTBEAT", [b"", W1, b"\4"]),
    (D1, "DISCONNECT", [b"", W1, b"\5"]),
    (D2, "REQUEST", [W2, b"\2", b"t", b"", b"x"]),
    (D2, "HEARTBEAT", [W2, b"\5"]),
    (D2, "DISCONNECT", [W2, b"\6"]),
    (D2E, "REQUEST", [b"", W2, b"\2", b"t", b"", b"x"]),
    (D2E, "HEARTBEAT", [b"", W2, b"\5"]),
    (D2E, "DISCONNECT", [b"", W2, b"\6"]),
]


@pytest.mark.parametrize("dialect, command, sent", TO_WORKER)
def test_commands_to_workers_frame_by_frame(dialect, command, sent) -> None:
    assert frames.to_worker(dialect, command, b"t", [b"x"]) == sent


def test_a_request_without_a_body_gets_an_empty_frame() -> None:
    assert frames.to_worker(D2, "REQUEST", b"t") == [W2, b"\2", b"t", b"", b""]
