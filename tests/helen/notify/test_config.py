"""Tests notifications.toml: all that is wrong at once, defaults, and secrets that stay references."""

from __future__ import annotations

import pytest
from telling import webhook

from helen.files.toml_table import Secret
from helen.notify.channels.registry import KINDS
from helen.notify.channels.smtp import Smtp
from helen.notify.config import Config, NotificationsError, read
from helen.notify.secrets import OpenedSecrets, SecretMissing, show_setting, show_url

FAULTS = [
    ("x = 1", "top level: 'x' is no setting here: channels, external_url, route"),
    ("[channels.a]\ntype = 'fax'", "type is 'fax': write webhook or alertmanager or smtp or command or apprise"),
    ("[channels.a]\n", "channels.a: type is missing"),
    ("[channels.a]\ntype='webhook'", "channels.a: url is missing"),
    ("[channels.a]\ntype='webhook'\nurl='ftp://x'", "channels.a: url can't be used"),
    ("[channels.a]\ntype='webhook'\nurl='http://u:hunter2@x/'", "channels.a: url can't be used"),
    ("[channels.a]\ntype='webhook'\nurl='http://x'\nbearer='abc'", "channels.a: bearer is written out: write { env"),
    ("[channels.a]\ntype='webhook'\nurl='http://x'\nbearer={file='rel'}", "channels.a: bearer is not usable"),
    ("[channels.a]\ntype='webhook'\nurl='http://x'\nheaders={Host='y'}", "channels.a: headers: 'Host' can't be set"),
    ("[channels.a]\ntype='webhook'\nurl='http://x'\nrate='5'", "channels.a: rate is '5': write \"30/1h\""),
    ("[channels.a]\ntype='webhook'\nurl='http://x'\nrate='0/1h'", "channels.a: rate is '0/1h'"),
    ("[channels.a]\ntype='webhook'\nurl='http://x'\ntimeout='1h'", "channels.a: timeout is 3600 s: 0.1 to 300 s"),
    ("[channels.a]\ntype='alertmanager'\nurl='http://x'\nrate='5/1h'", "channels.a: 'rate' is no setting here"),
    ("[channels.a]\ntype='smtp'\nhost='m'\nfrom='x'\nto='a@b'", "channels.a: from: 'x' is no address"),
    ("[channels.a]\ntype='smtp'\nhost='m'\nfrom='a@b'", "channels.a: to is missing"),
    ("[channels.a]\ntype='smtp'\nhost='m'\nfrom='a@b'\nto=\"a@b\\nBcc: c@d\"", "channels.a: to is"),
    ("[channels.a]\ntype='smtp'\nhost='m'\nfrom='a@b'\nto='a@b'\nuser='u'", "user and password go together"),
    ("[channels.a]\ntype='smtp'\nhost='m'\nfrom='a@b'\nto='a@b'\ntls='none'\nuser='u'\npassword={env='P'}", "clear"),
    ("[channels.a]\ntype='command'\nargv='true'", "channels.a: argv is 'true': write a list that begins"),
    ("[channels.'a b']\ntype='command'\nargv='/bin/true'", "channels.a b: write [channels.NAME]"),
    ("[route]\nchannels='a'", "route: there is no [channels.a]; there are: none"),
    ("[route]\nmatch='a=b'", "route: match and continue are for the rules below it"),
    ("[[route.routes]]\nmatch='a'", "route.1: match: 'a' is no matcher"),
    ("[[route.routes]]\ngroup_wait='2h'", "route.1: group_wait is 7200 s: 0 to 3600 s"),
    ("[[route.routes]]\nrepeat_interval='1s'", "route.1: repeat_interval is 1 s: 60 to"),
    ("[[route.routes]]\ngroup_interval='25h'", "route.1: group_interval is 90000 s: 1 to 86400 s"),
    ("[[route.routes]]\ncontinue='yes'", "route.1: continue is 'yes': write true or false"),
    ("[route]\nroutes=3", "route: routes is 3: write [[route.routes]]"),
    ("route = 3", "route: write rules as tables"),
    ("channels = 3", "channels: write [channels.NAME]"),
    ("= 3", "no TOML"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), FAULTS)
def test_what_is_wrong_is_said(text: str, said: str) -> None:
    """A fault is told with its place and what to write instead, and never with a password."""
    with pytest.raises(NotificationsError) as caught:
        read(text)
    assert said in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert str(caught.value).count("\n") <= 1


def test_all_faults_at_once() -> None:
    """All faults come at once, one line each; a channel with a fault makes no second one where it is named."""
    with pytest.raises(NotificationsError) as caught:
        read("[channels.a]\ntype='fax'\n[route]\nchannels=['a','b']\nx=1\n[[route.routes]]\nmatch='y'")
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == [
        "channels.a", "route", "route", "route.1",
    ]  # fmt: skip


def test_rules_too_deep_are_refused() -> None:
    """Rules that are too deep are refused, rather than a recursion ends Helen."""
    deep = "route = " + "{ routes = [" * 60 + "{}" + "] }" * 60
    with pytest.raises(NotificationsError, match="at most 20 deep"):
        read(deep)


def test_an_empty_file_is_fine() -> None:
    """An empty file is taken, and tells nobody."""
    assert read("") == Config({}, read("").route, "")
    assert read("").route.channels == ()


def test_channels() -> None:
    """A channel has the defaults of its kind."""
    config = read(
        "[channels.a]\ntype='alertmanager'\nurl='http://x:9093'\n"
        "[channels.w]\ntype='webhook'\nshape='alertmanager-v4'\nurl={env='HOOK'}\nrate='30/1h'\n"
        "[channels.m]\ntype='smtp'\nhost='m'\nfrom='a@b'\nto=['c@d']\nuser='u'\npassword={file='/p'}\n"
    )
    settings = config.channels["m"].settings
    assert settings == Smtp("m", 587, "starttls", "a@b", ("c@d",), "u", Secret("file", "/p"))
    assert config.channels["w"].settings == webhook(Secret("env", "HOOK"), "alertmanager-v4")
    assert config.channels["w"].rate == (30, 3600.0)
    kinds = [each.settings for each in config.channels.values()]
    assert [(each.groups_itself, each.knows_labels) for each in kinds] == [(True, True), (False, True), (False, False)]


def test_secrets(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    """A secret is looked up when used and masked afterwards; a missing one is told by its name."""
    monkeypatch.setenv("TOKEN", "tr0ub4dor")
    monkeypatch.delenv("NONE", raising=False)
    path = f"{tmp_path}/secret"
    with open(path, "w") as file:
        file.write("tr0ub4dor&3\n")
    opened = OpenedSecrets()
    assert [opened.text(each) for each in ("plain", Secret("env", "TOKEN"), Secret("file", path))] == [
        "plain", "tr0ub4dor", "tr0ub4dor&3",
    ]  # fmt: skip
    assert opened.mask("a tr0ub4dor&3 and plain tr0ub4dor") == "a **** and plain ****"
    for secret in (Secret("env", "NONE"), Secret("file", path + "x")):
        with pytest.raises(SecretMissing, match=f"{secret.name}"):
            opened.text(secret)
    assert show_setting({"A": "x", "B": Secret("env", "T")}) == {"A": "****", "B": "(env T)"}
    assert show_url("https://hooks.example:8443/T0/secret?x=1") == "https://hooks.example:8443/****"


def test_how_long_an_attempt_may_take() -> None:
    """An attempt takes as long as docs/notifications.rst says: programs of others get longer than a request."""
    found = {kind.type_name: kind.default_timeout for kind in KINDS}
    usual = dict.fromkeys(("webhook", "alertmanager", "smtp", "incident", "syslog"), 10.0)
    assert found == {**usual, "command": 30.0, "apprise": 30.0}


def test_the_longest_times_of_a_rule() -> None:
    """The longest times are taken as they are: an hour, a day, and a month between repeats."""
    rule = read("[route]\ngroup_wait='1h'\ngroup_interval='1d'\nrepeat_interval='30d'").route
    assert (rule.timing.wait, rule.timing.interval, rule.timing.repeat) == (3_600.0, 86_400.0, 2_592_000.0)
