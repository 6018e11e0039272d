"""Test command lines of programs: the values that a slot takes, and that no other value gets through."""

# ruff: noqa: E501 - a table has a line for each case

import pytest

from equus.policy.plugin_templates import Plugin, Slot, is_beneath

PERCENT, INTEGER, NUMBER = Slot("percent"), Slot("integer", min=-5, max=10), Slot("number")
ENUM = Slot("enum", choices=("tcp", "udp"))
PATH = Slot("path", paths=("/srv", "/var/log"))
HOST, WORD = Slot("host"), Slot("word")

TAKEN = [
    (PERCENT, 0, "0"), (PERCENT, 100, "100"), (PERCENT, 99.5, "99.5"), (PERCENT, "80", "80"),
    (INTEGER, -5, "-5"), (INTEGER, 10.0, "10"), (INTEGER, "7", "7"),
    (NUMBER, 1e6, "1000000"), (NUMBER, 0.1, "0.1"),
    (ENUM, "tcp", "tcp"),
    (PATH, "/srv", "/srv"), (PATH, "/srv/a b", "/srv/a b"), (PATH, "/var/log/x", "/var/log/x"),
    (HOST, "example.org", "example.org"), (HOST, "::1", None), (HOST, "2001:db8::1", "2001:db8::1"), (HOST, "10.0.0.1", "10.0.0.1"),
    (WORD, "nginx.service", "nginx.service"), (WORD, "a@b", "a@b"),
]  # fmt: skip


@pytest.mark.parametrize(("slot", "value", "text"), TAKEN)
def test_taken(slot: Slot, value: object, text: str | None) -> None:
    """A slot makes one argument of a good value, and refuses a value without such a text."""
    if text is None:
        with pytest.raises(ValueError):
            slot.text(value)
    else:
        assert slot.text(value) == text


HOSTILE = ["-x", "--help", "a\nb", "$(id)", "`id`", "a;b", "a b", "'", '"', "a|b", "\0", "", "x" * 1_048_576, "é\u202e"]
REFUSED = [
    (PERCENT, -1), (PERCENT, 100.1), (PERCENT, "x"), (PERCENT, True), (PERCENT, None), (PERCENT, float("nan")), (PERCENT, "1" * 40),
    (INTEGER, -6), (INTEGER, 11), (INTEGER, 1.5), (INTEGER, []),
    (NUMBER, -1), (NUMBER, float("inf")), (NUMBER, "-1"),
    (ENUM, "icmp"), (ENUM, "tcp "), (ENUM, 1),
    (PATH, "/srvx"), (PATH, "/srv/../etc"), (PATH, "srv"), (PATH, "/etc"), (PATH, "/srv/./a"), (PATH, "/srv/a\n"), (PATH, "-/srv"),
    *[(slot, value) for slot in (HOST, WORD, ENUM) for value in HOSTILE],
]  # fmt: skip


@pytest.mark.adversary(41)
@pytest.mark.parametrize(("slot", "value"), REFUSED, ids=lambda value: repr(value)[:40])
def test_refused(slot: Slot, value: object) -> None:
    """A slot refuses values that could be an option, a second argument, or a word of a shell."""
    with pytest.raises(ValueError):
        slot.text(value)


def test_a_command_line() -> None:
    """A slot is a whole argument or a part of one, and its value is not filled in again."""
    plugin = Plugin(
        "ntp",
        ("/usr/lib/check_ntp", "-H", "{host}", "--warn={warn}%", "{kind}", "{Literal} {"),
        {"host": HOST, "warn": Slot("percent", default="5"), "kind": Slot("enum", choices=("{host}",))},
    )
    assert plugin.argv({"host": "a.b", "kind": "{host}"}) == [
        "/usr/lib/check_ntp",
        "-H",
        "a.b",
        "--warn=5%",
        "{host}",
        "{Literal} {",
    ]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({}, "plugin p needs a value for host"),
        ({"host": "a", "x": 1}, "plugin p has no slot 'x'; it has host"),
        ({"host": "-a"}, "plugin p: host must not begin with '-' or hold control characters"),
    ],
)
def test_sentences(values: dict[str, object], sentence: str) -> None:
    """Each fault names the plugin and the slot."""
    with pytest.raises(ValueError) as fault:
        Plugin("p", ("/p", "{host}"), {"host": HOST}).argv(values)
    assert str(fault.value) == sentence


@pytest.mark.parametrize(
    ("path", "root", "beneath"),
    [
        ("/a/b", "/a", True),
        ("/a", "/a", True),
        ("//a//b", "/a", True),
        ("/ab", "/a", False),
        ("/", "/", True),
        ("/x", "/", True),
        ("a", "/", False),
        ("/a/..", "/", False),
        ("/a\0b", "/", False),
        ("", "/", False),
    ],
)
def test_is_beneath(path: str, root: str, beneath: bool) -> None:
    """A path is beneath a root by its parts, not by its letters."""
    assert is_beneath(path, root) is beneath
