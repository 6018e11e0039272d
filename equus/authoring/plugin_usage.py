"""Read the usage that a monitoring plugin prints, and propose a command line with typed slots for it. Pure.

Authors write usage for people, so this is a guess: each option that the usage shows outside brackets gets a place, and
a type by the words that stand for its value. The person who owns the host reads the result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from attrs import frozen

MAX_USAGE = 8_192  # characters that are looked at
MAX_SLOTS = 16
_USAGE = re.compile(r"^[ \t]*usage:?[ \t]*", re.IGNORECASE | re.MULTILINE)
_OPTION = re.compile(r"^ *(-[A-Za-z0-9]), --([a-z][a-z0-9_-]*)=([^\s,]+)", re.MULTILINE)
_PART = re.compile(r"<([^<>]*)>|([A-Za-z][A-Za-z0-9_-]*)")
_FLAG = re.compile(r"--?[A-Za-z0-9][A-Za-z0-9-]*")
# Words in a placeholder, and the type of its slot; the first that fits counts.
_TYPES = (
    (r"host|address|^ip\b|server|vhost", "host"),
    (r"percent|pl$", "percent"),
    (r"log|file|path|device|directory", "path"),
    (r"port|seconds|secs|minutes|packets|users|count|integer|expire|timeout|size|bytes|number|days", "integer"),
    (r"time|warn|crit|rta|load|limit|offset|jitter|threshold|value|variance|double|float", "number"),
)  # fmt: skip
_ROOTS = ((r"log", "/var/log"), (r"device", "/dev"), (r"file", "/var"))


class NoProposal(Exception):
    """Says that no command line can be proposed; the text continues a sentence about the plugin."""


@frozen
class Proposal:
    """Describes a command line and its slots, as they stand in a policy; `others` are options that were left out."""

    command: tuple[str, ...]
    slots: Mapping[str, Mapping[str, object]]
    others: tuple[str, ...] = ()


def propose(path: str, text: str) -> Proposal:
    """Return what a policy could say of the program `path`, by the text of its `--help`. Raises NoProposal."""
    usage = _usage(text, path.rpartition("/")[2])
    options = {flag: (name, value) for flag, name, value in _OPTION.findall(text)}
    command, slots = [path], dict[str, Mapping[str, object]]()
    for flag, value in _once(_places(_chosen(_without_brackets(usage)))):
        long_name, metavar = options.get(flag, ("", ""))
        template = _template(flag, value, long_name, metavar, slots)
        command += [flag] if flag else []
        command += [template] if template else []
    if len(slots) > MAX_SLOTS:
        raise NoProposal(f"its usage has more than {MAX_SLOTS} values")
    others = (f"{flag} {value}" for flag, (name, value) in options.items() if flag not in command and name != "timeout")
    return Proposal(tuple(command), slots, tuple(others)[:12])


def _usage(text: str, program: str) -> str:
    """Return the first form of the usage, without the program's name."""
    start = _USAGE.search(text)
    if start is None:
        raise NoProposal("its --help shows no usage")
    lines: list[str] = []
    for line in text[start.end() : start.end() + MAX_USAGE].splitlines():
        is_next_form = bool(lines) and (line.strip().startswith(program) or _USAGE.match(line) is not None)
        if (lines and not line.strip()) or is_next_form or re.match(r"\s*options:?\s*$", line, re.IGNORECASE):
            break
        if line.strip():
            lines.append(line.strip())
    first, _, rest = " ".join(lines).partition(" ")
    if first.rpartition("/")[2] != program:
        raise NoProposal("its usage does not begin with its name")
    if re.search(r"\bplugin\b", rest):
        raise NoProposal("it runs another program: let the policy name that one with its whole command line")
    return rest


def _without_brackets(usage: str) -> str:
    """Return a usage without what is in square brackets, and may be left out."""
    found, depth = [], 0
    for character in usage:
        depth += (character == "[") - (character == "]" and depth > 0)
        if depth == 0 and character != "]":
            found.append(character)
    return "".join(found)


def _chosen(usage: str) -> str:
    """Return a usage with one of each set of alternatives: the first one in percent, else the first."""

    def choose(match: re.Match[str]) -> str:
        listed = match[1].split("|")
        return next((each for each in listed if "%" in each), listed[0]).strip()

    usage = re.sub(r"[{(]([^{}()]*)[})]", choose, usage)
    return re.sub(r"\s\|\s*-[^<|]*(?:<[^<>]*>|\S+)?", "", re.sub(r"<[^<>]*>", _kept, usage)).replace("\x00", "|")


def _kept(match: re.Match[str]) -> str:
    return match[0].replace("|", "\x00")


def _places(usage: str) -> Iterator[tuple[str, str]]:
    """Give each option with the text that stands for its value; "" for a value without an option, and the reverse."""
    flag = ""
    for token in re.findall(r"(?:<[^<>]*>|[^\s<>])+", usage):
        if _FLAG.fullmatch(token):
            if flag:
                yield flag, ""
            flag = token
        else:
            yield flag, token
            flag = ""
    if flag:
        yield flag, ""


def _once(places: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Give the places up to an option that was there: that is another form. `host1 host2 hostN` is one host."""
    flags, stems = set[str](), set[str]()
    for flag, value in places:
        if flag in flags:
            return
        stem = "" if flag else re.sub(r"(\d+|N)$", "", value)
        if stem not in stems:
            yield flag, value if flag or stem == value else stem
        flags |= {flag} - {""}
        stems |= {stem} - {""}


def _template(flag: str, value: str, long_name: str, metavar: str, slots: dict[str, Mapping[str, object]]) -> str:
    """Return the argument with its places, and add their slots. Raises NoProposal for a value that may be anything."""
    if not value:
        return ""
    parts = [match[1] if match[1] is not None else match[2] for match in _PART.finditer(value)]
    is_only = len(parts) == 1

    def place(match: re.Match[str]) -> str:
        word = match[1] if match[1] is not None else match[2]
        if re.search(r"command|query|^process|script", word, re.IGNORECASE):
            raise NoProposal(f"its value {word!r} may be anything: write it into the command line yourself")
        in_percent = value[match.end() : match.end() + 1] == "%"
        wanted = long_name if is_only and long_name else word or flag.strip("-")
        name = _unique(re.sub(r"[^a-z0-9]+", "_", wanted.lower()).strip("_"), slots)
        slots[name] = _slot(word, "percent" if in_percent else "", metavar if is_only else "")
        return f"{{{name}}}"

    return _PART.sub(place, value)


def _unique(wanted: str, slots: Mapping[str, object]) -> str:
    wanted = (wanted if wanted[:1].isalpha() else f"a{wanted}")[:28] or "a"
    found, number = wanted, 1
    while found in slots:
        number += 1
        found = f"{wanted}{number}"
    return found


def _slot(word: str, kind: str, metavar: str) -> Mapping[str, object]:
    choices = [each.strip() for each in word.split("|")]
    if len(choices) > 1 and all(re.fullmatch(r"[A-Za-z0-9_.-]+", each) for each in choices):
        return {"type": "enum", "choices": choices}
    kind = kind or _type_of(word) or _type_of(metavar.split("[")[0]) or "word"
    if kind == "number" and metavar.startswith("INTEGER"):
        kind = "integer"
    if (metavar.startswith("RANGE") and kind != "percent") or re.search(r"range", word, re.IGNORECASE):
        kind = "word"
    if kind == "path":
        roots = (root for pattern, root in _ROOTS if re.search(pattern, word, re.IGNORECASE))
        return {"type": "path", "paths": [next(roots, "/")]}
    return {"type": kind}


def _type_of(word: str) -> str:
    return next((kind for pattern, kind in _TYPES if re.search(pattern, word, re.IGNORECASE)), "")
