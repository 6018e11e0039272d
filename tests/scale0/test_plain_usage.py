"""Tests that a fault in the options of a twistd command is one sentence, for each of the three of them."""

from __future__ import annotations

import pytest
from twisted.python.usage import UsageError

import helen.tap
import scale0.tap
import zerotask.tap


@pytest.mark.parametrize(
    ("options", "words", "sentence"),
    [
        (helen.tap.Options, ["--listen", "x", "--state", "s"], "helen: --listen 'x': write HOST:PORT"),
        (helen.tap.Options, ["--nonsense"], "helen: option --nonsense not recognized. `twistd helen --help` lists"),
        (scale0.tap.Options, [], "scale0: --config FILE is missing. `twistd scale0 --help` lists the options."),
        (zerotask.tap.Options, ["--state", "s", "--listen", "x"], "zerotask: --listen x: an endpoint is tcp://"),
    ],
)
def test_under_twistd(options, words, sentence, capsys):
    """The sentence stands first, and the status is that of twistd for usage."""
    made = options()
    made.parent = object()
    with pytest.raises(SystemExit) as ended:
        made.parseOptions(words)
    printed = capsys.readouterr()
    assert (ended.value.code, printed.out, printed.err.startswith(sentence), printed.err.count("\n")) == (
        1, "", True, 1,
    )  # fmt: skip


def test_elsewhere():
    """A program that calls the options without --config gets a UsageError."""
    with pytest.raises(UsageError, match="--config FILE is missing"):
        scale0.tap.Options().parseOptions([])
