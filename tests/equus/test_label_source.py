"""Test labels of a file or a program: those that are read, those that are refused, and that a fault leaves the labels
read before.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from equus import label_source
from equus.label_source import MAX_BYTES, LabelSource, LabelSourceError, parse
from equus.settings import MAX_LABELS


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengthen the time for a program, because a busy machine may take long to start an interpreter."""
    monkeypatch.setattr(label_source, "RUN_SECONDS", 120.0)


KUBERNETES = 'app="web"\napp.kubernetes.io/name="a \\"b\\""\n\n# written by hand\npod-template-hash=5d4\n'


@pytest.mark.parametrize(
    ("text", "labels"),
    [(KUBERNETES, {"app": "web", "app.kubernetes.io/name": 'a "b"', "pod-template-hash": "5d4"}),
     ('{"zone": "eu-1", "type": "m5=x"}', {"zone": "eu-1", "type": "m5=x"}), ("", {}), ("{}", {}),
     ("a=b=c\r\n", {"a": "b=c"}), ("zone=1\nzone=2", {"zone": "2"})],
)  # fmt: skip
def test_what_is_read(text: str, labels: dict[str, str]) -> None:
    """Labels are read from lines with or without quotes, as the downward API writes them, or from an object of
    texts.
    """
    assert parse(text, "x") == labels


@pytest.mark.parametrize(
    ("text", "words"),
    [("zone", "say KEY=VALUE"), ("a b=c", "say KEY=VALUE"), ('a="\\x"', "Invalid"), ('{"a": 1}', "'a' is no text"),
     ('{"a": "b"', "delimiter"), ("[" * 9 + "{", "say KEY=VALUE"), ('{"a": "' + "x" * 256 + '"}', "255 printable"),
     ("a=\x1b[2J", "printable"), ('{"a":' * 100_000, "/etc/facts: "),
     ("\n".join(f"k{n}=v" for n in range(MAX_LABELS + 1)), "at most 64")],
)  # fmt: skip
def test_what_is_refused(text: str, words: str) -> None:
    """Faulty labels are refused with a sentence that names the file and the fault."""
    with pytest.raises(LabelSourceError, match=words) as refused:
        parse(text, "/etc/facts")
    assert str(refused.value).startswith("--labels-from /etc/facts: ")


def program(tmp_path: Path, code: str) -> str:
    """Write a program, and return its command line."""
    path = tmp_path / "facts.py"
    path.write_text(code)
    return f"{sys.executable} {path} x"


def test_a_file_and_a_program(tmp_path: Path) -> None:
    """Labels of `--label` count first, and an executable file is run with the words behind it as arguments."""
    file = tmp_path / "labels"
    file.write_text("zone=eu-1\nrack=8\n")
    source = LabelSource({"rack": "7"}, str(file))
    assert (source.labels, source.read(), source.labels) == ({"rack": "7"}, True, {"zone": "eu-1", "rack": "7"})
    assert source.read() is False
    file.write_text("#!/bin/sh\necho zone=$1\n")
    file.chmod(0o700)
    source = LabelSource({}, f"{file} 'eu 2'")
    assert (source.read(), source.labels) == (True, {"zone": "eu 2"})


def test_a_fault_leaves_what_was_read_before(tmp_path: Path) -> None:
    """A fault leaves the labels that were read before, and is reported until it is mended."""
    file = tmp_path / "labels"
    file.write_text("zone=eu-1")
    source = LabelSource({}, str(file))
    source.read()
    file.unlink()
    assert (source.read(), source.labels) == (True, {"zone": "eu-1"})
    assert source.fault == f"--labels-from {file}: there is no such file, and no such program"
    assert source.read() is False
    file.write_text("zone=eu-2")
    assert (source.read(), source.labels, source.fault) == (True, {"zone": "eu-2"}, None)


@pytest.mark.parametrize(
    ("code", "words"),
    [("print('zone=eu-1'); raise SystemExit(3)", "it ended with status 3"),
     ("print('a=' + 'x' * 70_000)", "more than 65,536 bytes"), ("import os; os.write(1, b'a=\\xff')", "utf-8"),
     ("print('a=b' * 2_000_000)", "more than 65,536 bytes")],
)  # fmt: skip
def test_a_program_with_a_fault(tmp_path: Path, code: str, words: str) -> None:
    """The output of a failed program, or more than 65,536 bytes of it, gives no label."""
    source = LabelSource({}, program(tmp_path, code))
    source.read()
    assert source.labels == {}
    assert source.fault is not None and words in source.fault
    assert MAX_BYTES == 65_536


@pytest.mark.parametrize(
    "code", ["import time; time.sleep(600)", "import os, time; os.close(1); time.sleep(600)",
             "import os, time; os.fork(); print('a=b', flush=True); time.sleep(600)"],
)  # fmt: skip
def test_a_program_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """A program that hangs is killed with all that it has started, whether it holds its output open or not."""
    monkeypatch.setattr(label_source, "RUN_SECONDS", 2.0)
    (tmp_path / "mark").write_text("")
    source = LabelSource({}, program(tmp_path, code) + f" {tmp_path}/mark")
    source.read()
    assert source.fault is not None and "it has not ended within 2 s" in source.fault
    until = time.monotonic() + 30.0
    while running(f"{tmp_path}/mark"):
        assert time.monotonic() < until
        time.sleep(0.05)


def running(word: str) -> list[str]:
    """Return the processes with this word in their command line, except those that have ended and wait for their
    parent.
    """
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if word.encode() in words:
            found.append(folder.name)
    return found


def test_a_program_is_told_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program for labels gets the agent's environment without the token and the folder of credentials."""
    monkeypatch.setenv("EQUUS_JOIN", "secret")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", "/run/credentials/equus.service")
    monkeypatch.setenv("REGION", "eu")
    code = "import json, os; print(json.dumps({name: value for name, value in os.environ.items() if len(value) < 99}))"
    path = tmp_path / "facts.py"
    path.write_text(code)
    environment = json.loads(label_source._content(f"{sys.executable} {path}"))
    assert environment["REGION"] == "eu" and "EQUUS_JOIN" in os.environ
    assert not {"EQUUS_JOIN", "CREDENTIALS_DIRECTORY"} & environment.keys()
