"""Sends one mail over SMTP, in a thread of its own: smtplib blocks, and a mail server may take its time.

A thread that is given up has its socket shut, so that it ends; one that hangs in a name look-up ends with that.
"""

from __future__ import annotations

import contextlib
import smtplib
import socket
import ssl
import threading
from typing import Any

from attrs import field, frozen
from twisted.internet.defer import Deferred, TimeoutError
from twisted.python.failure import Failure

from helen.notify.attempt import SendFailed


@frozen
class Letter:
    """One mail, and the server that takes it. `tls`: starttls, tls or none."""

    host: str
    port: int
    tls: str
    sender: str
    to: tuple[str, ...]
    content: bytes = field(repr=False)
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: str | None = None


async def post(reactor: Any, letter: Letter, timeout: float) -> str:
    """The server's own words; raises SendFailed. `timeout` is for the whole of it."""
    errand = _Errand(reactor, letter, timeout)
    done = errand.start()
    done.addTimeout(timeout, reactor)
    try:
        return await done
    except TimeoutError as error:
        raise SendFailed(f"the mail server was not done within {timeout:g} s") from error


class _Errand:
    """One conversation in one thread."""

    def __init__(self, reactor: Any, letter: Letter, timeout: float) -> None:
        self._reactor, self._letter, self._timeout = reactor, letter, timeout
        self._socket: socket.socket | None = None
        self._given_up = False
        self._done: Deferred[str] = Deferred(lambda _: self._give_up())

    def start(self) -> Deferred[str]:
        threading.Thread(target=self._run, name="helen.mail", daemon=True).start()
        return self._done

    def _give_up(self) -> None:
        self._given_up = True
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    # ------------------------------------------------------------------------------------- in the thread

    def _run(self) -> None:
        result: Any
        try:
            result = self._converse()
        except SendFailed as error:
            result = Failure(error)
        except smtplib.SMTPResponseException as error:
            result = Failure(SendFailed(_said(error.smtp_code, error.smtp_error)))
        except smtplib.SMTPRecipientsRefused as error:
            told = "; ".join(f"{who}: {_said(*words)}" for who, words in error.recipients.items())
            result = Failure(SendFailed(f"nobody of {told}"))
        except ssl.SSLError as error:
            result = Failure(SendFailed(f"TLS: {error.reason or error}"))
        except (OSError, smtplib.SMTPException, ValueError) as error:
            result = Failure(SendFailed(f"no mail could be handed over: {error}"))
        except Exception as error:  # the thread must answer, whatever it is
            result = Failure(SendFailed(f"{type(error).__name__}: {error}"))
        self._reactor.callFromThread(self._fire, result)

    def _fire(self, result: Any) -> None:
        if not self._given_up and not self._done.called:
            self._done.callback(result)  # a Failure goes the way of errors

    def _converse(self) -> str:
        letter = self._letter
        context = None if letter.tls == "none" else _context(letter.ca)
        smtp = self._connect(context)
        try:
            self._socket = smtp.sock
            if letter.tls == "starttls":
                smtp.starttls(context=context)
                self._socket = smtp.sock
            if letter.user is not None and letter.password is not None:
                smtp.login(letter.user, letter.password)
            return self._hand_over(smtp)
        finally:
            smtp.close()

    def _connect(self, context: ssl.SSLContext | None) -> smtplib.SMTP:
        letter, name, longest = self._letter, socket.gethostname(), 2 * self._timeout  # whoever waits for us is sooner
        if letter.tls == "tls":
            return smtplib.SMTP_SSL(letter.host, letter.port, name, timeout=longest, context=context)
        return smtplib.SMTP(letter.host, letter.port, name, timeout=longest)

    def _hand_over(self, smtp: smtplib.SMTP) -> str:
        """MAIL, RCPT and DATA by hand: smtplib's sendmail keeps the server's last words to itself."""
        letter = self._letter
        smtp.ehlo_or_helo_if_needed()
        _expect(smtp.mail(letter.sender))
        refused = []
        for each in letter.to:
            code, words = smtp.rcpt(each)
            if code not in (250, 251):
                refused.append(f"{each}: {_said(code, words)}")
        if len(refused) == len(letter.to):
            raise SendFailed("nobody takes it: " + "; ".join(refused))
        said = _said(*_expect(smtp.data(letter.content)))
        with contextlib.suppress(smtplib.SMTPException, OSError):
            smtp.quit()
        return said + (f" (but not {'; '.join(refused)})" if refused else "")


def _expect(answer: tuple[int, bytes]) -> tuple[int, bytes]:
    if answer[0] != 250:
        raise SendFailed(_said(*answer))
    return answer


def _said(code: int, words: bytes | str) -> str:
    return f"{code} {words.decode('utf-8', 'replace') if isinstance(words, bytes) else words}"


def _context(ca: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise SendFailed(f"the authority {ca} can't be read: {error}") from error
