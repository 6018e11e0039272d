"""Collects the commands that texts name: docs, messages of programs, templates and scripts of pages, units, comments.

A command that people are told to type must exist as it is written. So each is held against the parser of its program:
its subcommand, its options, and how many values it takes.
"""

from __future__ import annotations

import ast
import html
import itertools
import re
import shlex
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import click
from attrs import frozen
from sources import nodes_of
from twisted.python import usage

from equus.main import main as equus
from helen.cli.main import main as helen
from helen.cli.pipeline import pipeline as handed_on
from helen.pipeline.commands import main as pipeline
from helen.tap import Options as HelenOptions
from scale0.ctl import main as scale0ctl
from scale0.tap import Options as Scale0Options
from zerotask.cli import main as zerotask
from zerotask.tap import Options as ZeroTaskOptions

ROOT = Path(__file__).parents[2]
PROGRAMS: dict[str, click.Command] = {"helen": helen, "equus": equus, "scale0ctl": scale0ctl, "zerotask": zerotask}
SERVICES: dict[str, type[usage.Options]] = {
    "helen": HelenOptions, "scale0": Scale0Options, "zerotask": ZeroTaskOptions
}  # fmt: skip
FILLED = "\ue000"  # stands where a program fills something in
FIRST_HELD = 0xE001  # of the characters that stand for what a script fills in, while its texts are looked for
NAME = rf"(?:{'|'.join(PROGRAMS)}|twistd|\./dev)"
BEGIN = re.compile(rf"(?:[A-Z_]+=\S+ +|sudo +|\S*/bin/)*({NAME}(?: (?!.*(?:---|──)).*)?)$", re.S)
STOP = re.compile(r"\s(?:\||>|>>|<|&&|&|;|#)\s|\s#|;\s|\s&$|\s->")
DEV_STEPS = set(re.findall(r"^    ([a-z]+)\)", (ROOT / "dev").read_text(), re.M))


@frozen
class Named:
    """Holds a command as it is written, and the file and line of it."""

    place: str
    text: str


@cache
def named_commands() -> list[Named]:
    """Return all commands that are named in the tree, in the order of files."""
    found = list[Named]()
    for pattern, read in READERS.items():
        for path in sorted(ROOT.glob(pattern)):
            for line, text in read(path.read_text()):
                if (begun := BEGIN.match(" ".join(text.split()))) is not None:
                    found.append(Named(f"{path.relative_to(ROOT)}:{line}", begun[1]))
    return found


def of_prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield what stands in backticks, single ones and pairs of them."""
    for match in re.finditer(r"``(.+?)``|(?<!`)`([^`]+?)`(?!`)", text, re.S):
        yield text.count("\n", 0, match.start()) + 1, match[1] or match[2]


def of_page(text: str) -> Iterator[tuple[int, str]]:
    """Yield the commands of a page of the docs: in its sentences, and the lines of its blocks."""
    yield from of_prose(text)
    yield from of_script(text, r"^[ ]+")


def of_script(text: str, indent: str = r"^\s*") -> Iterator[tuple[int, str]]:
    """Yield the lines that begin with a command, with those that they go on in."""
    alone = re.sub(r"(?<=\S) {2,}\S.*(?<!\\)$", "", text, flags=re.M)  # what stands further right tells of the command
    number = 1
    for line in re.sub(r"\\\n *", "\x00", alone).split("\n"):
        begun = re.match(indent + r"(?:\$ |ExecStart=)?", line)
        if begun is not None and BEGIN.match(line[begun.end() :]):
            yield number, line[begun.end() :].replace("\x00", "")
        number += 1 + line.count("\x00")


def of_python(text: str) -> Iterator[tuple[int, str]]:
    """Yield the commands in texts and comments; a text may be one, or quote it."""
    spoken = [node for node in nodes_of(text) if isinstance(node, ast.JoinedStr | ast.Constant)]
    inner = {id(part) for node in spoken if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in spoken:
        if id(node) in inner:
            continue
        for said in texts_of(node):
            for line, command in of_prose(said):
                yield node.lineno + line - 1, command
            if re.match(rf"{NAME} (?:[a-z]|-)", said) and "`" not in said and "; " not in said:
                yield node.lineno, said
    for number, line in enumerate(text.split("\n"), 1):
        for _, command in of_prose(line.partition("  # ")[2] or line.partition("# ")[2]):
            yield number, command


def texts_of(node: ast.AST) -> list[str]:
    """Return the texts that a node may be: more than one where a condition chooses between two words."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        return ["".join(parts) for parts in itertools.product(*map(_words_of, node.values))]
    return []


def _words_of(part: ast.expr) -> list[str]:
    if isinstance(part, ast.Constant):
        return [str(part.value)]
    choice = part.value if isinstance(part, ast.FormattedValue) else None
    words = [choice.body, choice.orelse] if isinstance(choice, ast.IfExp) else []
    said = [each.value for each in words if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return said if len(said) == 2 else [FILLED]


def _filled(text: str, expression: str, choice: str) -> list[str]:
    """Return a text with FILLED for each expression in it, and once for each of the words that a choice is between."""
    pieces = re.split(expression, text, flags=re.S)
    found = re.findall(expression, text, flags=re.S)
    words = [list(chosen.groups()) if (chosen := re.search(choice, each, re.S)) else [FILLED] for each in found]
    return ["".join(itertools.chain(*zip(pieces, [*each, ""], strict=True))) for each in itertools.product(*words)]


def of_template(text: str) -> Iterator[tuple[int, str]]:
    """Yield the commands of a page in a browser, with what it fills in."""
    for match in re.finditer(r"<(code|pre)\b[^>]*>(.*?)</\1>", text, re.S):
        plain = re.sub(r"\{[%#].*?[%#]\}", " ", match[2], flags=re.S)
        for said in _filled(plain, r"\{\{.*?\}\}", r'^\{\{ "([^"]*)" if .* else "([^"]*)" \}\}$'):
            yield text.count("\n", 0, match.start()) + 1, html.unescape(said)


def of_javascript(text: str) -> Iterator[tuple[int, str]]:
    """Yield the commands of a script of pages: what a text in quotes begins with, and what a comment quotes."""
    held = list[str]()

    def hold(match: re.Match[str]) -> str:
        held.append(match[0])
        return chr(FIRST_HELD + len(held) - 1)

    plain = re.sub(r"\$\{(?:[^{}]|\{[^{}]*\})*\}", hold, text)
    for match in re.finditer(rf"([\"'`])({NAME}(?: (?:(?!\1).)*)?)\1", plain):
        said = re.sub(f"[{chr(FIRST_HELD)}-\uf8ff]", lambda each: held[ord(each[0]) - FIRST_HELD], match[2])
        for command in _filled(said, r"\$\{(?:[^{}]|\{[^{}]*\})*\}", r'\? "([^"]*)" : "([^"]*)"\}$'):
            yield plain.count("\n", 0, match.start()) + 1, command


READERS: dict[str, Callable[[str], Iterator[tuple[int, str]]]] = {
    "*.rst": of_page, "docs/**/*.rst": of_page, "newsfragments/*.rst": of_page, "dev": of_script,
    "helen/**/*.py": of_python, "equus/**/*.py": of_python, "equus_protocol/**/*.py": of_python,
    "groundwork/**/*.py": of_python, "scale0/**/*.py": of_python, "zerotask/**/*.py": of_python,
    "deploy/**/*.py": of_python, "bench/**/*.py": of_python, "deploy/**/*.service": of_script,
    "helen/web/pages/templates/**/*.html": of_template, "helen/web/pages/static/*.js": of_javascript,
    "checks/**/*.lua": of_prose,
}  # fmt: skip


def fault_of(text: str) -> str:
    """Return what is wrong with a command; an empty text: a person can type it so."""
    stop = STOP.search(text)
    tidy = re.sub(r"\$\([^)]*\)", FILLED, text[: stop.start()] if stop else text)
    tidy = re.sub(r"(?<=\s)\.\.\.(?=\s|$)", "", re.sub(r"[\[\]]", "", tidy))
    try:
        program, *words = [word for word in shlex.split(tidy) if word]
    except ValueError as error:
        return str(error)
    if program == "./dev":
        return f"./dev has no {words[0]}" if words and not set(words[0].split("|")) <= DEV_STEPS else ""
    return _fault_of_service(words) if program == "twistd" else _fault_of(PROGRAMS[program], words)


def _fault_of_service(words: list[str]) -> str:
    own = [word for word in words if word not in ("-n", "--nodaemon")]
    while own and own[0].startswith("-"):
        own = own[1:] if "=" in own[0] else own[2:]  # an option of twistd itself, with its value
    if not own or own[0] == FILLED:
        return ""
    options = SERVICES.get(own[0])
    if options is None:
        return f"twistd has no {own[0]}"
    known = {f"--{name.rstrip('=')}" for name in options().longOpt}
    unknown = [word for word in own[1:] if word.startswith("--") and word.partition("=")[0] not in known]
    return f"twistd {own[0]} has no {unknown[0]}" if unknown else ""


def _fault_of(command: click.Command, words: list[str]) -> str:
    """Return what the parser of a command says of its words."""
    if command is handed_on:
        command = pipeline
    context = click.Context(command)
    context.allow_interspersed_args = not isinstance(command, click.Group)
    context.allow_extra_args = True
    try:
        _, left, _ = command.make_parser(context).parse_args(list(words))
    except click.BadOptionUsage as error:
        if not words[-1].startswith("-"):  # else the option is named alone, without its value
            return error.format_message()
        left = []
    except click.UsageError as error:
        return f"{command.name}: {error.format_message()}"
    if isinstance(command, click.Group) and left:
        return _fault_of_part(command, context, left)
    left = [word for word in left if FILLED not in word]
    return f"{command.name} takes no {' '.join(left)}" if left else ""


def _fault_of_part(group: click.Group, context: click.Context, words: list[str]) -> str:
    is_open = FILLED in words[0] or words[0] == "COMMAND"  # one of them must fit
    names = group.list_commands(context) if is_open else words[0].split("|")
    faults = list[str]()
    for name in names:
        part = group.get_command(context, name)
        faults.append(f"{group.name} has no {name}" if part is None else _fault_of(part, words[1:]))
    if is_open and "" in faults:
        return ""
    return next((fault for fault in faults if fault), "")
