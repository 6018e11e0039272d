"""Implement the channel `smtp`: it sends a mail.

It runs in a thread of its own: smtplib blocks, and a mail server may take its time. A thread that is given up has its
socket shut, so that it ends; one that hangs in a name look-up ends when that does.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import smtplib
import socket
import ssl
import threading
from collections.abc import Iterable
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any, ClassVar

from attrs import field, frozen
from twisted.internet.defer import Deferred, TimeoutError
from twisted.python.failure import Failure

from helen.files.toml_table import Secret, Table, Text
from helen.notify.attempt import Attempt, SendFailed
from helen.notify.channels.channel import ChannelKind
from helen.notify.message_text import lines, subject_line
from helen.notify.messages import Message
from helen.notify.payloads import status_of
from helen.notify.secrets import show_setting

PORTS = {"starttls": 587, "tls": 465, "none": 25}
_ADDRESS = re.compile(r"[^\s@<>,;:\"()\[\]\\]+@[^\s@<>,;:\"()\[\]\\]+")


@frozen
class Smtp(ChannelKind):
    """Holds the settings of a mail server. `tls`: starttls, tls or none.

    `ca`: path of a PEM file with the authorities to trust instead of the system's.
    """

    type_name: ClassVar[str] = "smtp"

    host: str
    port: int
    tls: str
    sender: str
    to: tuple[str, ...]
    user: Text | None = None
    password: Secret | None = None
    ca: str | None = None

    @classmethod
    def read(cls, table: Table) -> Smtp:
        """Take `host`, `port`, `tls`, `from`, `to`, `user`, `password` and `ca`."""
        tls = table.choice("tls", tuple(PORTS), "starttls")
        port = table.number("port", PORTS[tls], 1, 65_535)
        host = table.text("host", 'write the mail server, such as "mail.example"')
        sender, to = table.text("from", "write one address"), table.strings("to", "write addresses")
        user, password = table.secret("user", "a text", True), table.secret("password")
        ca = table.text("ca", "write the path of a PEM file", "")
        if "to" not in table.content:
            table.fault("to", "write addresses")
        for key, each in (("from", sender), *(("to", each) for each in to)):
            if each and not (_ADDRESS.fullmatch(each) and each.isascii()):
                table.faults.append(f"{table.place}: {key}: {each!r} is no address such as ops@example.org")
        if (user is None) != (password is None):
            table.faults.append(f"{table.place}: user and password go together")
        if password is not None and tls == "none" and host not in ("127.0.0.1", "::1", "localhost"):
            table.faults.append(f'{table.place}: a password would go over the network in the clear: tls = "starttls"')
        return cls(host, port, tls, sender, to, user, password if isinstance(password, Secret) else None, ca or None)

    async def send(self, attempt: Attempt) -> str:
        """Send a mail and return the server's answer. Raises SendFailed or SecretMissing."""
        mail = await attempt.in_thread(lambda: self.mail(attempt))
        done = _Session(attempt.reactor, mail, attempt.timeout).start()
        done.addTimeout(attempt.timeout, attempt.reactor)
        try:
            return await done
        except TimeoutError as error:
            raise SendFailed(f"the mail server was not done within {attempt.timeout:g} s") from error

    def mail(self, attempt: Attempt) -> Mail:
        """Return the mail for this message. Raises SecretMissing if a reference leads nowhere. Blocks: files."""
        content = compose(attempt.message, attempt.external_url, self.sender, self.to).as_bytes()
        user = None if self.user is None else attempt.secrets.text(self.user)
        password = None if self.password is None else attempt.secrets.text(self.password)
        return Mail(self, content, user, password)

    def show(self) -> dict[str, Any]:
        """Return `host`, `port`, `tls`, `from`, `to` and `password`."""
        return {
            "host": self.host, "port": self.port, "tls": self.tls, "from": self.sender, "to": list(self.to),
            "password": show_setting(self.password),
        }  # fmt: skip


@frozen
class Mail:
    """Describes one mail, and the login at the server that takes it."""

    settings: Smtp
    content: bytes = field(repr=False)
    user: str | None = None
    password: str | None = field(default=None, repr=False)


def compose(message: Message, external_url: str, sender: str, to: Iterable[str]) -> EmailMessage:
    """Return a mail of text; its header has all that a filter or a thread needs."""
    made = EmailMessage(policy=SMTP)
    made["From"], made["To"] = sender, ", ".join(to)
    made["Subject"] = subject_line(message)
    made["Date"] = datetime.fromtimestamp(message.at, UTC)
    domain = sender.rpartition("@")[2] or "helen.invalid"
    made["Message-ID"] = f"<{message.id}@{domain}>"
    made["In-Reply-To"] = made["References"] = f"<{hashlib.sha256(message.group.encode()).hexdigest()[:32]}@{domain}>"
    made["Auto-Submitted"] = "auto-generated"
    made["X-Helen-Status"] = status_of(message)
    made.set_content("\n".join(lines(message, external_url)) + "\n")
    return made


class _Session:
    """Runs one SMTP session in one thread. `timeout`: seconds."""

    def __init__(self, reactor: Any, mail: Mail, timeout: float) -> None:
        self._reactor, self._mail, self._settings, self._timeout = reactor, mail, mail.settings, timeout
        self._socket: socket.socket | None = None
        self._given_up = False
        self._done: Deferred[str] = Deferred(lambda _: self._give_up())

    def start(self) -> Deferred[str]:
        """Begin; the Deferred fires with the server's last answer. Cancel it to give up."""
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
            result = Failure(SendFailed(_reply(error.smtp_code, error.smtp_error)))
        except smtplib.SMTPRecipientsRefused as error:
            refused = "; ".join(f"{address}: {_reply(*reply)}" for address, reply in error.recipients.items())
            result = Failure(SendFailed(f"nobody of {refused}"))
        except ssl.SSLError as error:
            result = Failure(SendFailed(f"TLS: {getattr(error, 'reason', None) or error}"))
        except (OSError, smtplib.SMTPException, ValueError) as error:
            result = Failure(SendFailed(f"no mail could be handed over: {error}"))
        except Exception as error:  # without an answer of the thread the attempt would never end
            result = Failure(SendFailed(f"{type(error).__name__}: {error}"))
        self._reactor.callFromThread(self._fire, result)

    def _fire(self, result: Any) -> None:
        if not self._given_up and not self._done.called:
            self._done.callback(result)  # a Failure makes it fail

    def _converse(self) -> str:
        settings, mail = self._settings, self._mail
        context = None if settings.tls == "none" else _context(settings.ca)
        smtp = self._connect(context)
        try:
            self._socket = smtp.sock
            if settings.tls == "starttls":
                smtp.starttls(context=context)
                self._socket = smtp.sock
            if mail.user is not None and mail.password is not None:
                smtp.login(mail.user, mail.password)
            return self._hand_over(smtp)
        finally:
            smtp.close()

    def _connect(self, context: ssl.SSLContext | None) -> smtplib.SMTP:
        host, port, name = self._settings.host, self._settings.port, socket.gethostname()
        longest = 2 * self._timeout  # of one step; `send` gives up before that
        if self._settings.tls == "tls":
            return smtplib.SMTP_SSL(host, port, name, timeout=longest, context=context)
        return smtplib.SMTP(host, port, name, timeout=longest)

    def _hand_over(self, smtp: smtplib.SMTP) -> str:
        """Send MAIL, RCPT and DATA one by one: smtplib's sendmail doesn't return the server's last answer."""
        settings = self._settings
        smtp.ehlo_or_helo_if_needed()
        _expect(smtp.mail(settings.sender))
        refused = []
        for each in settings.to:
            code, text = smtp.rcpt(each)
            if code not in (250, 251):
                refused.append(f"{each}: {_reply(code, text)}")
        if len(refused) == len(settings.to):
            raise SendFailed("nobody takes it: " + "; ".join(refused))
        reply = _reply(*_expect(smtp.data(self._mail.content)))
        with contextlib.suppress(smtplib.SMTPException, OSError):
            smtp.quit()
        return reply + (f" (but not {'; '.join(refused)})" if refused else "")


def _expect(answer: tuple[int, bytes]) -> tuple[int, bytes]:
    if answer[0] != 250:
        raise SendFailed(_reply(*answer))
    return answer


def _reply(code: int, text: bytes | str) -> str:
    return f"{code} {text.decode('utf-8', 'replace') if isinstance(text, bytes) else text}"


def _context(ca: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise SendFailed(f"the authority {ca} can't be read: {error}") from error
