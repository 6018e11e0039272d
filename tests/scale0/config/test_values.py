"""Tests the values of a configuration at their limits."""

from __future__ import annotations

import pytest

from scale0.config import values


def record(n: int, r: int = 8, p: int = 1) -> str:
    return f"scrypt${n}${r}${p}${'ab' * 16}${'cd' * 32}"


@pytest.mark.parametrize(
    "good", [record(2), record(16384), record(2, p=16), record(values.MAX_SCRYPT_MEMORY // 1024), record(2, r=1)]
)
def test_a_password_record_that_can_be_checked_in_time_is_taken(good: str) -> None:
    assert values.scrypt_record(good) == good


COSTLY = record(values.MAX_SCRYPT_MEMORY // 512)
BAD = [record(1), record(3), record(0), record(2, p=17), record(2, p=0), record(2, r=0), COSTLY, record(2)[:-1], "x"]


@pytest.mark.parametrize("bad", BAD)
def test_one_that_costs_too_much_or_is_none_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="scrypt"):
        values.scrypt_record(bad)


@pytest.mark.parametrize("kind, least, most", [(values.SECONDS, 0.01, 86_400), (values.MILLIS, 0, 60_000)])
def test_a_length_of_time_is_taken_up_to_its_ends_and_no_further(kind, least: float, most: float) -> None:
    assert (kind(str(least)), kind(str(most))) == (least, most)
    for beyond in (least - 0.005 if least else -1, most + 1):
        with pytest.raises(ValueError, match="seconds"):
            kind(str(beyond))


FORMS: list[tuple[str, list[str], list[str]]] = [
    ("TEXT", ["", "x" * 255], ["x" * 256, "a\nb"]),
    ("PEER_NAME", ["x", "x" * 255], ["", "x" * 256]),
    ("CONTENT", ["", "x" * 999], ["a\nb"]),
    ("SERVICE", ["x", "mmi", "mmix", "x" * 255], ["", "x" * 256, "mmi.", "mmi.service"]),
    ("IDENTITY", ["a", "0._:@-", "a" * 128], ["", "-a", ".a", "a" * 129, "a b"]),
    ("NAME", ["a", "0._-", "a" * 128], ["", "_a", "a" * 129, "a:b"]),
    ("OPTIONAL_NAME", ["", "a", "a" * 128], ["_a", "a" * 129]),
    ("ENDPOINT", ["tcp://10.0.0.1:65535", "tcp://*:0", "tcp://[::1]:5", "ipc:///run/x", "ipc://" + "x" * 100],
     ["tcp://10.0.0.1:65536", "tcp://a:", "tcp://a:123456", "udp://a:1", "ipc://", "ipc://" + "x" * 101, "ipc://a b"]),
    ("HOST_PORT", ["127.0.0.1:0", "h:65535", "[::1]:80"], ["h:65536", "h", ":80", "h:123456"]),
    ("HOST", ["*", "x" * 253], ["", "x" * 254, "a b"]),
    ("PORT", ["0", "65535"], ["65536", "-1", "1.0", "", "1234567890123"]),
    ("MILLIS", ["0", "60000"], ["60001", "0.5"]),
    ("SECONDS", ["0.01", "86400", "0.123456789"], ["0", "0.0099", "86400.1", "1.1234567890", "1e3", "nan"]),
    ("PUBLIC_KEY", ["k" * 40], ["k" * 39, "k" * 41, "~" * 40]),
    ("SIGNING_KEY", ["af" * 32], ["a" * 63, "a" * 65, "AF" * 32]),
]  # fmt: skip


@pytest.mark.parametrize("name, good, bad", FORMS, ids=[name for name, _, _ in FORMS])
def test_each_kind_of_value_at_its_limits(name: str, good: list[str], bad: list[str]) -> None:
    convert = getattr(values, name)
    for text in good:
        taken = convert(text)
        assert taken is not None and (taken == text or float(taken) == float(text)), text
    for text in bad:
        with pytest.raises(ValueError, match=r"\w"):
            convert(text)


def test_numbers_are_of_the_kind_that_is_wanted() -> None:
    assert (values.PORT("5555"), type(values.PORT("5555"))) == (5555, int)
    assert (values.SECONDS("2"), type(values.SECONDS("2"))) == (2.0, float)
    assert values.MAX_SCRYPT_MEMORY == 67_108_864


def test_truth_is_one_of_four_texts() -> None:
    assert [values.truth(text) for text in ("0", "1", "false", "true")] == [False, True, False, True]
    for bad in ("", "yes", "True", "2"):
        with pytest.raises(ValueError, match="1 or 0"):
            values.truth(bad)


def test_one_of_some_texts() -> None:
    convert = values.one_of("a", "b", "c")
    assert [convert(text) for text in "abc"] == ["a", "b", "c"]
    with pytest.raises(ValueError, match=r"^a, b or c$"):
        convert("d")


@pytest.mark.parametrize(
    "n, r, p, good",
    [
        (2, 1, 1, True),
        (65536, 8, 1, True),
        (65536, 9, 1, False),
        (2, 999, 16, True),
        (6, 1, 1, False),
        (2, 1, 17, False),
        (524288, 1, 1, True),
        (1048576, 1, 1, False),
    ],
)
def test_what_a_password_record_may_cost(n: int, r: int, p: int, good: bool) -> None:
    if good:
        assert values.scrypt_record(record(n, r, p)) == record(n, r, p)
    else:
        with pytest.raises(ValueError, match="a power of two and 128"):
            values.scrypt_record(record(n, r, p))
