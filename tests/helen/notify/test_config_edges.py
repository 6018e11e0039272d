"""Tests notifications.toml at the edges of each setting: the last value that is taken, and the first that is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from telling import webhook

from helen.files.toml_table import Secret
from helen.notify import config as config_module
from helen.notify.channels.apprise import Apprise
from helen.notify.channels.channel import Channel
from helen.notify.channels.command import Command
from helen.notify.channels.registry import kind_of, type_names
from helen.notify.channels.smtp import Smtp
from helen.notify.config import Config, NotificationsError, read
from helen.notify.http_receiver import HttpReceiver
from helen.notify.routing import Timing
from helen.notify.secrets import MASK, OpenedSecrets, SecretMissing, show_setting, show_url

HOOK = "[channels.a]\ntype='webhook'\nurl='http://x'\n"
MAIL = "[channels.a]\ntype='smtp'\nhost='mail.example'\nfrom='a@b'\nto='c@d'\n"


def faults(text: str) -> list[str]:
    try:
        read(text)
    except NotificationsError as error:
        return str(error).splitlines()
    return []


EDGES = [  # (the file up to the value, what is taken, what is not, the beginning of the fault)
    (HOOK + "timeout=", ["'100ms'", "'300s'", "'5m'"], ["'99ms'", "'301s'"], "channels.a: timeout is"),
    (HOOK + "rate=", ["'1/1s'", "'100000/1d'", "'30/1h'", "'5/ 1m '"],
     ["'0/1s'", "'100001/1s'", "'1/0.9s'", "'1/86401s'", "'-1/1s'", "'x/1s'", "'1/x'", "'1'", "'/1s'"],
     "channels.a: rate"),
    ("[route]\ngroup_wait=", ["'0s'", "'3600s'"], ["'3601s'", "'-1s'"], "route: group_wait"),
    ("[route]\ngroup_interval=", ["'1s'", "'1d'"], ["'999ms'", "'86401s'"], "route: group_interval"),
    ("[route]\nrepeat_interval=", ["'60s'", "'30d'"], ["'59s'", "'2592001s'"], "route: repeat_interval"),
    ("[route]\ngroup_by=", [str(["x"] * 20), "[]", "'site'"], [str(["x"] * 21)], "route: group_by"),
    ("[route]\nchannels=", ["[]"], ["'a'", "3"], "route: "),
    (MAIL + "port=", ["1", "65535"], ["0", "65536", "true"], "channels.a: port"),
    ("[channels.a]\ntype='command'\nargv=", [str(["/x"] * 100), "'/x'"], [str(["/x"] * 101), "[]", "'x'"],
     "channels.a: argv"),
    ("[channels.a]\ntype='apprise'\nurls=", [str(["json://x"] * 20)], [str(["json://x"] * 21), "[]", "'x'"],
     "channels.a: urls"),
]  # fmt: skip
CASES = [(before, value, None) for before, taken, _, _ in EDGES for value in taken]
REFUSED = [(before, value, said) for before, _, refused, said in EDGES for value in refused]


@pytest.mark.parametrize(("before", "value", "said"), [*CASES, *REFUSED])
def test_the_edges_of_a_setting(before: str, value: str, said: str | None) -> None:
    """The last value of a setting is taken, and the first beyond it is refused."""
    found = faults(before + value + "\n")
    assert (found == []) is (said is None)
    assert all(each.startswith(said or "") for each in found)


@pytest.mark.parametrize(("name", "is_taken"), [("a", True), ("A.b_c-9", True), ("x" * 63, True), ("x" * 64, False),
                                                ("_a", False), ("-a", False), ("a b", False)])  # fmt: skip
def test_names_of_channels(name: str, is_taken: bool) -> None:
    """A channel's name has letters, digits and three signs, of which none is the first."""
    assert (faults(f"[channels.'{name}']\ntype='command'\nargv='/x'\n") == []) is is_taken


@pytest.mark.parametrize(("limit", "text"), [
    ("MAX_CHANNELS", "[channels]\n{}"), ("MAX_RULES", "[route]\nroutes=[{}]"), ("MAX_DEPTH", ""),
])  # fmt: skip
def test_so_many_and_no_more(limit: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers of channels, of rules with `route` itself, and of rules below rules are bounded."""
    monkeypatch.setattr(config_module, limit, 3)
    for count, is_taken in ((3, True), (4, False)):
        if limit == "MAX_CHANNELS":
            filled = text.format("\n".join(f"c{at}={{type='command',argv='/x'}}" for at in range(count)))
        elif limit == "MAX_RULES":
            filled = text.format(",".join(["{}"] * (count - 1)))
        else:
            filled = "route = " + "{ routes = [" * count + "{}" + "] }" * count
        assert (faults(filled) == []) is is_taken


def test_what_a_rule_does_not_say_is_as_above() -> None:
    """A rule takes channels, labels and each of the three times from above; whether it goes on and
    matches is its own.
    """
    top = read(
        "[channels]\nx={type='command',argv='/x'}\ny={type='command',argv='/y'}\n"
        "[route]\nname='all'\nchannels='x'\ngroup_by='site'\ngroup_wait='1s'\ngroup_interval='2s'\nrepeat_interval='61s'\n"
        "[[route.routes]]\nmatch=['a=b', 'c!=d']\ncontinue=true\n"
        "[[route.routes]]\nname='n'\ngroup_interval='9s'\nchannels='y'\n[[route.routes.routes]]\ngroup_by=[]\n"
    ).route
    first, second = top.below
    assert (top.name, top.channels, top.group_by, top.timing, top.go_on) == (
        "all", ("x",), ("site",), Timing(1.0, 2.0, 61.0), False,
    )  # fmt: skip
    assert (first.name, first.channels, first.group_by, first.timing, first.go_on, list(map(str, first.matchers))) == (
        "route.1", ("x",), ("site",), Timing(1.0, 2.0, 61.0), True, ["a=b", "c!=d"],
    )  # fmt: skip
    assert (second.name, second.channels, second.timing, second.go_on, second.matchers) == (
        "n", ("y",), Timing(1.0, 9.0, 61.0), False, (),
    )  # fmt: skip
    (below,) = second.below
    assert (below.name, below.channels, below.group_by, below.timing) == (
        "route.2.1",
        ("y",),
        (),
        Timing(1.0, 9.0, 61.0),
    )


def test_an_empty_file_has_usual_values() -> None:
    """An empty file has ten seconds, a minute and four hours, by agent; links lead nowhere; a URL loses
    its last slash.
    """
    route = read("").route
    assert (route.name, route.timing, route.group_by, route.go_on, route.below) == (
        "route", Timing(10.0, 60.0, 14_400.0), ("agent",), False, (),
    )  # fmt: skip
    assert Config({}, route).external_url == ""
    assert read("external_url='http://h:1/x/'").external_url == "http://h:1/x"


def test_a_channel_with_a_fault_is_one_fault() -> None:
    """Rules may name it; those that name another one say which there are."""
    found = faults(
        "[channels.a]\ntype='webhook'\n[channels.b]\ntype='command'\nargv='/x'\n[route]\nchannels=['a','z']\n"
    )
    assert found == [
        'channels.a: url is missing: write "https://host/path", or { env = "NAME" }, { file = "/path" }',
        "route: there is no [channels.z]; there are: a, b",
    ]


def test_what_cannot_be_read_at_all_is_no_other_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Channels that are no table count as none; a rule that names one is told so."""
    none = "route: there is no [channels.a]; there are: none"
    for text in ("channels=3\n[route]\nchannels='a'\n", "channels=[]\n[route]\nchannels='a'\n"):
        first, second = faults(text)
        assert first.startswith("channels: write [channels.NAME]") and second == none
    monkeypatch.setattr(config_module, "MAX_CHANNELS", 0)
    assert faults("[channels.a]\n[route]\nchannels='a'\n")[1:] == [none]


# ------------------------------------------------------------------------------------------------ kinds


def test_a_channel_of_each_kind_as_people_see_it() -> None:
    """A channel is shown with secrets by name, other secrets masked, and the usual times and ports."""
    channels = read(
        "[channels.w]\ntype='webhook'\nurl='https://h:8443/s3cret'\nbearer={env='B'}\nheaders={X='y'}\nrate='5/1m'\n"
        "[channels.am]\ntype='alertmanager'\nurl='http://am:9093'\ntimeout='3s'\n"
        "[channels.m]\ntype='smtp'\nhost='m'\nfrom='a@b'\nto=['c@d','e@f']\nuser='u'\npassword={file='/p'}\ntls='tls'\n"
        "[channels.c]\ntype='command'\nargv=['/x','y']\nenvironment={A='b', C={env='D'}}\n"
        "[channels.ap]\ntype='apprise'\nurls='slack://t/o/k'\n"
        "[channels.i]\ntype='incident'\nshape='opsgenie'\nkey={env='K'}\n"
        "[channels.s]\ntype='syslog'\nto='tls://logs'\nfacility='local0'\n"
    ).channels
    assert [channels[name].show() for name in ("w", "am", "m", "c", "ap", "i", "s")] == [
        {"name": "w", "timeout": 10.0, "rate": (5, 60.0), "type": "webhook", "shape": "own",
         "url": f"https://h:8443/{MASK}", "headers": {"X": MASK}, "bearer": "(env B)"},
        {"name": "am", "timeout": 3.0, "rate": None, "type": "alertmanager", "shape": "alertmanager-v2",
         "url": "http://am:9093/", "headers": {}, "bearer": None},
        {"name": "m", "timeout": 10.0, "rate": None, "type": "smtp", "host": "m", "port": 465, "tls": "tls",
         "from": "a@b", "to": ["c@d", "e@f"], "password": "(file /p)"},
        {"name": "c", "timeout": 30.0, "rate": None, "type": "command", "argv": ["/x", "y"],
         "environment": {"A": MASK, "C": "(env D)"}},
        {"name": "ap", "timeout": 30.0, "rate": None, "type": "apprise", "url": f"slack://{MASK}"},
        {"name": "i", "timeout": 10.0, "rate": None, "type": "incident", "shape": "opsgenie", "key": "(env K)",
         "url": f"https://api.opsgenie.com/{MASK}", "headers": {}, "bearer": None},
        {"name": "s", "timeout": 10.0, "rate": None, "type": "syslog", "url": "tls://logs:6514", "facility": "local0",
         "ca": None},
    ]  # fmt: skip
    assert type_names() == ("webhook", "alertmanager", "smtp", "command", "apprise", "incident", "syslog")
    assert [name for name in type_names() if kind_of(name).groups_itself] == ["alertmanager"]
    assert [name for name in type_names() if kind_of(name).one_alert] == ["incident"]
    assert (channels["w"].settings.knows_labels, channels["c"].settings.knows_labels) == (False, False)
    with pytest.raises(KeyError):
        kind_of("fax")
    assert (Channel("x", Command(("/x",))).timeout, Channel("x", Command(("/x",))).rate) == (10.0, None)


@pytest.mark.parametrize(("tls", "port"), [("", 587), ("tls='starttls'", 587), ("tls='tls'", 465), ("tls='none'", 25)])
def test_ports_of_mail(tls: str, port: int) -> None:
    """The port of mail follows from what is done for TLS; without a word of it STARTTLS is used."""
    settings = read(MAIL + tls + "\n").channels["a"].settings
    assert isinstance(settings, Smtp) and (settings.port, settings.ca, settings.user, settings.password) == (
        port, None, None, None,
    )  # fmt: skip


@pytest.mark.parametrize(("more", "said"), [
    ("user='u'\npassword={env='P'}\n", None), ("user={env='U'}\npassword={env='P'}\nca='/ca.pem'\n", None),
    ("user='u'\n", "channels.a: user and password go together"),
    ("password={env='P'}\n", "channels.a: user and password go together"),
    ("user='u'\npassword={env='P'}\ntls='none'\n",
     'channels.a: a password would go over the network in the clear: tls = "starttls"'),
    ("tls='none'\n", None),
])  # fmt: skip
def test_passwords_of_mail(more: str, said: str | None) -> None:
    """A password of mail is never sent in the clear over a network."""
    assert faults(MAIL + more) == ([] if said is None else [said])


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_a_password_may_go_to_this_machine(host: str) -> None:
    """A password may go in the clear to this machine, as nobody listens on the way."""
    text = MAIL.replace("mail.example", host) + "user='u'\npassword={env='P'}\ntls='none'\n"
    assert faults(text) == []


@pytest.mark.parametrize(("sender", "to", "count"), [
    ("a@b", "c@d", 0), ("a", "c@d", 1), ("a@b", "c", 1), ("a@b", "c@d e", 1), ("ä@b", "c@d", 1), ("a@b", "<c@d>", 1),
    ("a", "c", 2),
])  # fmt: skip
def test_addresses(sender: str, to: str, count: int) -> None:
    """An address has one @ with something on both sides, in ASCII, and nothing that ends it."""
    found = faults(f"[channels.a]\ntype='smtp'\nhost='m'\nfrom='{sender}'\nto='{to}'\n")
    assert len(found) == count
    assert all(each.endswith("is no address such as ops@example.org") for each in found)


@pytest.mark.parametrize(("name", "is_taken"), [
    ("X-Team", True), ("x" * 100, True), ("x" * 101, False), ("'X Y'", False), ("'X:'", False), ("Content-Type", False),
    ("HOST", False), ("Connection", False), ("Transfer-Encoding", False), ("Content-Length", False), ("Accept", True),
])  # fmt: skip
def test_headers(name: str, is_taken: bool) -> None:
    """A header that Helen sets itself can't be set."""
    assert (faults(HOOK + f"headers={{ {name} = 'v' }}\n") == []) is is_taken


def test_what_is_read_of_a_receiver() -> None:
    """A receiver's bearer is a reference and its `ca` a path; without them there is none."""
    channel = read(HOOK + "bearer={file='/b'}\nca='/ca'\nheaders={A={env='E'}}\n").channels["a"]
    assert channel.settings == webhook(
        "http://x", bearer=Secret("file", "/b"), ca="/ca", headers={"A": Secret("env", "E")}
    )
    assert read(HOOK).channels["a"].settings == webhook("http://x")
    assert HttpReceiver("http://x").headers == {}


def test_apprise_takes_references_and_urls() -> None:
    """A text has to be a URL; a reference is looked up when it is needed."""
    assert read("[channels.a]\ntype='apprise'\nurls=[{env='X'}]\n").channels["a"].settings == Apprise(
        (Secret("env", "X"),)
    )
    [fault] = faults("[channels.a]\ntype='apprise'\nurls=['json://x', 'hunter2']\n")
    assert fault == "channels.a: urls: one of them is no URL such as service://token"


# ------------------------------------------------------------------------------------------------ secrets


@pytest.mark.parametrize(("content", "value"), [
    (b"x", "x"), (b" abc \n", "abc"), (b"x" * 16_384, "x" * 16_384), ("schl\u00fcssel".encode(), "schl\u00fcssel"),
    (b"x" * 16_385, None), (b"x" * 16_384 + b"\n", None), (b"", None), (b" \n", None), (b"a\nb", None), (b"\xff", None),
])  # fmt: skip
def test_secrets_in_files(content: bytes, value: str | None, tmp_path: Path) -> None:
    """A secret in a file is one line of text, of 16 KiB at most; a blank at its ends is no part of it."""
    path = tmp_path / "secret"
    path.write_bytes(content)
    opened = OpenedSecrets()
    if value is not None:
        assert (opened.text(Secret("file", str(path))), opened.used) == (value, [value])
        return
    with pytest.raises(
        SecretMissing, match="is no UTF-8" if content == b"\xff" else "holds no secret: one line of text"
    ):
        opened.text(Secret("file", str(path)))
    assert opened.used == []


def test_secrets_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret that has no file, no variable, or an empty one is told as missing."""
    monkeypatch.setenv("NOTIFY_EMPTY", "")
    with pytest.raises(SecretMissing, match="the environment variable NOTIFY_EMPTY is not set where Helen runs"):
        OpenedSecrets().text(Secret("env", "NOTIFY_EMPTY"))
    with pytest.raises(SecretMissing, match="x can't be read: No such file or directory"):
        OpenedSecrets().text(Secret("file", str(tmp_path / "x")))


@pytest.mark.parametrize(("used", "text", "masked"), [
    (["abcd"], "an abcd", f"an {MASK}"), (["abc"], "an abc", "an abc"), ([], "abcd", "abcd"),
    (["abcd", "abcdef"], "abcdef abcd", f"{MASK} {MASK}"), (["abcdef", "abcd"], "abcdef", MASK),
])  # fmt: skip
def test_masks(used: list[str], text: str, masked: str) -> None:
    """The longest secret is masked first, so that none is left in part; one below four characters is no secret."""
    assert OpenedSecrets(used).mask(text) == masked


def test_parts_of_a_url_are_secrets() -> None:
    """A part of a URL is a secret from six characters on: shorter ones are words."""
    opened = OpenedSecrets()
    opened.mask_parts("json://user:passwd@host.example/abcde/abcdef?key=1234567&x=y#fragment")
    assert opened.used == ["passwd", "host.example", "abcdef", "1234567", "fragment"]


def test_texts_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """References become their values, and texts stay as they are; only the former are secrets."""
    monkeypatch.setenv("NOTIFY_T", "value")
    opened = OpenedSecrets()
    assert opened.texts({"A": "plain", "B": Secret("env", "NOTIFY_T")}) == {"A": "plain", "B": "value"}
    assert opened.used == ["value"]


@pytest.mark.parametrize(("given", "shown"), [
    (Secret("env", "X"), "(env X)"), ("plain", "plain"), (None, None), ({"A": "b", "C": Secret("file", "/d")},
                                                                        {"A": MASK, "C": "(file /d)"}), ({}, {}),
])  # fmt: skip
def test_settings_as_people_see_them(given: Any, shown: Any) -> None:
    """A table has its plain values masked as well."""
    assert show_setting(given) == shown


@pytest.mark.parametrize(("url", "shown"), [
    ("http://h", "http://h/"), ("http://h/", "http://h/"), ("http://h//", "http://h/"), ("http://h/x", f"http://h/{MASK}"),
    ("http://h?x", f"http://h/{MASK}"), ("https://h:8443/x?y", f"https://h:8443/{MASK}"), ("http://h:80", "http://h:80/"),
    (Secret("env", "X"), "(env X)"),
])  # fmt: skip
def test_urls_as_people_see_them(url: Any, shown: str) -> None:
    """A URL is shown with scheme, host and port; of a path only that there is one."""
    assert show_url(url) == shown
