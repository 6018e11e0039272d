"""Durations as people write them."""

import pytest

from helen.durations import seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30", 30.0), ("30s", 30.0), ("500ms", 0.5), ("5m", 300.0), ("1h", 3_600.0), ("2d", 172_800.0),
        ("1.5h", 5_400.0), (" 10 s ", 10.0), (7, 7.0), (0.25, 0.25), (0, 0.0),
    ],
)  # fmt: skip
def test_what_is_a_duration(text: object, expected: float) -> None:
    """A number with a unit, or seconds."""
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "s", "-1s", "1w", "1e3", "1 h 2 m", "٣s", None, True, [], -1, 1e9, float("nan")])
def test_what_is_none(text: object) -> None:
    """Everything else is refused with a sentence."""
    with pytest.raises(ValueError, match="is no duration"):
        seconds(text)
