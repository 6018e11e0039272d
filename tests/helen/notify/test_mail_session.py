"""Tests one SMTP session step by step, against a server object that answers as it is told."""

from __future__ import annotations

import smtplib
import socket
import ssl
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve
from twisted.python.failure import Failure

from helen.files.toml_table import Secret
from helen.notify.attempt import SendFailed
from helen.notify.channels import smtp as smtp_module
from helen.notify.channels.smtp import Mail, Smtp, _context, _expect, _reply, _Session

PLAIN = Smtp("mail.example", 25, "none", "helen@x.org", ("a@x.org", "b@x.org"))


class Reactor:
    """Runs at once what a thread hands over."""

    def callFromThread(self, work: Callable[..., Any], *args: Any) -> None:
        work(*args)


class Server:
    """Stands for smtplib.SMTP: `answers` by verb, an exception is raised; `did` is what was asked of it."""

    def __init__(self, answers: dict[str, Any], did: list[Any]) -> None:
        self.answers, self.did, self.sock = answers, did, "first socket"

    def _do(self, verb: str, *args: Any) -> Any:
        self.did.append((verb, *args))
        answer = self.answers.get(" ".join(map(str, (verb, *args))), self.answers.get(verb, (250, b"fine")))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def starttls(self, context: Any) -> None:
        self._do("STARTTLS", context)
        self.sock = "second socket"

    def login(self, user: str, password: str) -> None:
        self._do("AUTH", user, password)

    def ehlo_or_helo_if_needed(self) -> None:
        self._do("EHLO")

    def mail(self, sender: str) -> Any:
        return self._do("MAIL", sender)

    def rcpt(self, to: str) -> Any:
        return self._do("RCPT", to)

    def data(self, content: bytes) -> Any:
        return self._do("DATA", content)

    def quit(self) -> None:
        self._do("QUIT")

    def close(self) -> None:
        self.did.append(("closed",))


class Stage:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: dict[str, Any] = {"DATA": (250, b"kept")}
        self.did: list[Any] = []
        self.made: list[Any] = []
        for name in ("SMTP", "SMTP_SSL"):
            monkeypatch.setattr(smtplib, name, lambda *args, kind=name, **named: self._make(kind, args, named))
        monkeypatch.setattr(socket, "gethostname", lambda: "helen-1")
        monkeypatch.setattr(smtp_module, "_context", lambda ca: f"context {ca}")

    def _make(self, kind: str, args: Any, named: Any) -> Server:
        self.made.append((kind, args, named))
        if isinstance(self.answers.get("connect"), Exception):
            raise self.answers["connect"]
        return Server(self.answers, self.did)

    def ran(self, settings: Smtp = PLAIN, user: str | None = None, password: str | None = None) -> str:
        self.session = _Session(Reactor(), Mail(settings, b"content", user, password), 7.0)
        got: list[Any] = []
        self.session._done.addBoth(got.append)
        self.session._run()
        (found,) = got
        if isinstance(found, Failure):
            assert isinstance(found.value, SendFailed)
            return f"failed {found.value.text}"
        return f"ok {found}"

    def verbs(self) -> list[str]:
        return [each[0] for each in self.did]


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def test_a_mail_without_tls(stage: Stage) -> None:
    """A mail without TLS takes each step in its turn; a step may take twice the attempt's time."""
    assert stage.ran() == "ok 250 kept"
    assert stage.made == [("SMTP", ("mail.example", 25, "helen-1"), {"timeout": 14.0})]
    assert stage.did == [
        ("EHLO",), ("MAIL", "helen@x.org"), ("RCPT", "a@x.org"), ("RCPT", "b@x.org"), ("DATA", b"content"), ("QUIT",),
        ("closed",),
    ]  # fmt: skip
    assert stage.session._socket == "first socket"


def test_starttls_comes_before_the_password(stage: Stage) -> None:
    """STARTTLS is done before the password is sent, with the authorities of the settings."""
    assert stage.ran(evolve(PLAIN, tls="starttls", ca="/ca"), "u", "p") == "ok 250 kept"
    assert stage.did[:3] == [("STARTTLS", "context /ca"), ("AUTH", "u", "p"), ("EHLO",)]
    assert (stage.made[0][0], stage.session._socket) == ("SMTP", "second socket")


def test_tls_from_the_start(stage: Stage) -> None:
    """TLS from the start needs no STARTTLS."""
    assert stage.ran(evolve(PLAIN, tls="tls", port=465)) == "ok 250 kept"
    assert stage.made == [("SMTP_SSL", ("mail.example", 465, "helen-1"), {"timeout": 14.0, "context": "context None"})]
    assert stage.verbs()[0] == "EHLO"


@pytest.mark.parametrize(("user", "password"), [(None, None), ("u", None), (None, "p")])
def test_no_login_by_halves(stage: Stage, user: str | None, password: str | None) -> None:
    """A user without a password is none."""
    stage.ran(PLAIN, user, password)
    assert "AUTH" not in stage.verbs()


@pytest.mark.parametrize(("answers", "said"), [
    ({"RCPT a@x.org": (251, b"will forward")}, "ok 250 kept"),
    ({"RCPT a@x.org": (252, b"maybe")}, "ok 250 kept (but not a@x.org: 252 maybe)"),
    ({"RCPT a@x.org": (249, b"?"), "RCPT b@x.org": (250, b"fine")}, "ok 250 kept (but not a@x.org: 249 ?)"),
    ({"RCPT": (550, b"no such box")}, "failed nobody takes it: a@x.org: 550 no such box; b@x.org: 550 no such box"),
    ({"MAIL": (451, b"later")}, "failed 451 later"), ({"MAIL": (251, b"odd")}, "failed 251 odd"),
    ({"DATA": (554, b"spam")}, "failed 554 spam"),
    ({"QUIT": smtplib.SMTPServerDisconnected("gone")}, "ok 250 kept"), ({"QUIT": OSError("gone")}, "ok 250 kept"),
    ({"DATA": smtplib.SMTPDataError(552, b"too big")}, "failed 552 too big"),
    ({"MAIL": smtplib.SMTPSenderRefused(550, b"no", "helen@x.org")}, "failed 550 no"),
    ({"AUTH": smtplib.SMTPAuthenticationError(535, b"wrong")}, "failed 535 wrong"),
    ({"RCPT": smtplib.SMTPRecipientsRefused({"a@x.org": (550, b"no"), "b@x.org": (551, b"gone")})},
     "failed nobody of a@x.org: 550 no; b@x.org: 551 gone"),
    ({"connect": OSError("no route")}, "failed no mail could be handed over: no route"),
    ({"EHLO": smtplib.SMTPServerDisconnected("closed")}, "failed no mail could be handed over: closed"),
    ({"DATA": ValueError("line")}, "failed no mail could be handed over: line"),
    ({"connect": ssl.SSLError(1, "words")}, "failed TLS: words"),
    ({"MAIL": KeyError("fault")}, "failed KeyError: 'fault'"),
])  # fmt: skip
def test_answers(stage: Stage, answers: dict[str, Any], said: str) -> None:
    """A server that refuses is quoted; one recipient that is refused keeps no other from the mail."""
    stage.answers |= answers
    assert stage.ran(PLAIN, "u", "p") == said
    assert not stage.did or stage.did[-1] == ("closed",)


def test_a_session_that_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that is given up shuts its socket, which ends its thread; a later outcome is passed over."""
    shut: list[int] = []

    class Open:
        def shutdown(self, how: int) -> None:
            shut.append(how)
            raise OSError("not connected")

    session = _Session(Reactor(), Mail(PLAIN, b""), 1.0)
    session._done.addErrback(lambda failure: None)
    session._socket = Open()  # type: ignore[assignment]
    session._done.cancel()
    assert shut == [socket.SHUT_RDWR]
    session._fire("late")
    early = _Session(Reactor(), Mail(PLAIN, b""), 1.0)
    early._done.addErrback(lambda failure: None)
    early._done.cancel()
    early._fire("late")


def test_only_one_outcome() -> None:
    """The first outcome of a session counts, and no other."""
    session, got = _Session(Reactor(), Mail(PLAIN, b""), 1.0), list[Any]()
    session._done.addCallback(got.append)
    session._fire("first")
    session._fire("second")
    assert got == ["first"]


def test_words_of_a_server() -> None:
    """A server's words are its code and text, in any bytes; 250 alone is a yes."""
    assert [_reply(250, b"fine"), _reply(550, "no"), _reply(421, b"\xff")] == ["250 fine", "550 no", "421 \ufffd"]
    assert _expect((250, b"x")) == (250, b"x")
    for code in (249, 251, 354):
        with pytest.raises(SendFailed, match=f"^{code} x$"):
            _expect((code, b"x"))


def test_an_authority_that_cannot_be_read() -> None:
    """An authority that cannot be read is told by its path and the reason."""
    with pytest.raises(SendFailed, match=r"^the authority /nowhere can't be read: "):
        _context("/nowhere")
    assert _context(None).verify_mode is ssl.CERT_REQUIRED


def test_a_mail_holds_its_login_only_by_reference() -> None:
    """Neither the password nor the text is in what a log could show."""
    mail = Mail(evolve(PLAIN, user="u", password=Secret("env", "P")), b"content", "u", "hunter2")
    assert "hunter2" not in repr(mail) and "content" not in repr(mail)
    assert (Mail(PLAIN, b"").user, Mail(PLAIN, b"").password) == (None, None)
