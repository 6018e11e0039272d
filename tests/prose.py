"""Measures docstrings and comments: `./dev prose [FOLDER...]` prints figures, then the places to mend.

The rule stands in docs/glossary.rst, and tests/test_prose.py holds the tree to it. Files are read with `ast` and
`tokenize`, never imported.
"""

from __future__ import annotations

import ast
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

from attrs import Factory, define, fields
from sources import nodes_of, tokens_of

ROOT = Path(__file__).parents[1]
PACKAGES = ("groundwork", "equus_protocol", "equus", "helen", "scale0", "zerotask")

# A first sentence that begins so has no subject of its own.
CLAUSE = re.compile(r"(what|whether|who|whoever|whose|of|those|which)\b", re.I)
PERSON = re.compile(r"\b(who|whoever|whom|whose|somebody|nobody|anybody|everybody)\b", re.I)
SHE = re.compile(r"\b(she|her|hers|herself)\b", re.I)
WORD = re.compile(r"[A-Za-z']+")
# Names of float parameters that are points of time, and of those that are lengths of time.
MOMENT = re.compile(r"(^|_)(now|at|when|since|until|deadline|moment|time|due|begin|end|started|received|expires|wall)$")
LENGTH = re.compile(r"(^|_)(seconds|timeout|every|interval|delay|patience|within|wait|pause|age|window|for|lasting)$")
CLOCK = re.compile(r"\b(monotonic|unix|wall clock|steady|epoch|clock)\b", re.I)
UNIT = re.compile(r"\b(seconds?|milliseconds?|ms|s)\b", re.I)
RAISES = re.compile(r"\braise", re.I)
EXIT = re.compile(r"\bexit status\b", re.I)  # a command's docstring is its --help, whose readers know no exceptions
COMMAND = re.compile(r"\.command\b")


@define
class Figures:
    """Counts over a set of files, and the places behind each count that falls short."""

    words: int = 0
    person: int = 0
    she: int = 0
    docstrings: int = 0
    clauses: int = 0
    public: int = 0
    described: int = 0
    raising: int = 0
    raising_said: int = 0
    timed: int = 0
    timed_said: int = 0
    places: list[str] = Factory(list)

    def __add__(self, other: Figures) -> Figures:
        """Return the counts and the places of both."""
        names = [each.name for each in fields(Figures)]
        return Figures(**{name: getattr(self, name) + getattr(other, name) for name in names})

    def table(self) -> dict[str, tuple[float, str, float]]:
        """Return, by the name of each figure, its value, whether it is held at most or at least, and the bar."""
        return {
            "who, somebody ... per 1,000 words": (_per(self.person, self.words, 1000), "at most", 1.5),
            "she, her per 1,000 words": (_per(self.she, self.words, 1000), "at most", 0.0),
            "docstrings that open with a clause, %": (_per(self.clauses, self.docstrings), "at most", 1.0),
            "public functions with a docstring, %": (_per(self.described, self.public, empty=100), "at least", 92.0),
            "functions that raise and say so, %": (_per(self.raising_said, self.raising, empty=100), "at least", 80.0),
            "seconds with their clock or unit, %": (_per(self.timed_said, self.timed, empty=100), "at least", 80.0),
        }

    def short(self) -> list[str]:
        """Return one sentence for each figure that misses its bar."""
        return [
            f"{name}: {value:.1f}, {bound} {bar}"
            for name, (value, bound, bar) in self.table().items()
            if (value > bar if bound == "at most" else value < bar)
        ]


def _per(part: int, whole: int, scale: int = 100, empty: float = 0.0) -> float:
    return scale * part / whole if whole else empty


def measure(paths: Iterator[Path] | list[Path], root: Path = ROOT) -> Figures:
    """Return the figures of these Python files; `root` is what the named places are relative to."""
    figures = Figures()
    for path in paths:
        _measure_file(figures, path, str(path.relative_to(root)))
    return figures


def files_of(folders: list[str], root: Path = ROOT) -> list[Path]:
    """Return the Python files of these folders or files, given relative to `root`; all packages by default."""
    found: list[Path] = []
    for folder in folders or PACKAGES:
        path = root / folder
        found += [path] if path.is_file() else sorted(path.rglob("*.py"))
    return found


def _measure_file(figures: Figures, path: Path, name: str) -> None:
    text = path.read_text()
    said: list[tuple[int, str]] = []
    for node in nodes_of(text):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            continue
        docstring = ast.get_docstring(node)
        if docstring:
            said.append((node.body[0].lineno, docstring))
        if not isinstance(node, ast.Module):
            _measure_docstring(figures, node, docstring, name)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            _measure_function(figures, node, docstring or "", name)
    said += [(line, string.lstrip("# ")) for kind, line, string in tokens_of(text) if kind == tokenize.COMMENT]
    for line, each in said:
        figures.words += len(WORD.findall(each))
        for kind, pattern in (("person", PERSON), ("she", SHE)):
            found = pattern.findall(each)
            setattr(figures, kind, getattr(figures, kind) + len(found))
            if found:
                figures.places.append(f"{name}:{line}: {kind}: {', '.join(found)}")


def _measure_docstring(
    figures: Figures, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, docstring: str | None, name: str
) -> None:
    if not docstring:
        return
    figures.docstrings += 1
    if CLAUSE.match(docstring):
        figures.clauses += 1
        figures.places.append(f"{name}:{node.lineno}: clause: {node.name}: {docstring.splitlines()[0][:90]}")


def _measure_function(
    figures: Figures, node: ast.FunctionDef | ast.AsyncFunctionDef, docstring: str, name: str
) -> None:
    if len(node.body) < 2:
        return
    figures.public += 1
    figures.described += bool(docstring)
    if not docstring:
        figures.places.append(f"{name}:{node.lineno}: no docstring: {node.name}")
    if any(isinstance(each, ast.Raise) and each.exc is not None for each in ast.walk(node)):
        figures.raising += 1
        is_command = any(COMMAND.search(ast.unparse(each)) for each in node.decorator_list)
        if RAISES.search(docstring) or (is_command and EXIT.search(docstring)):
            figures.raising_said += 1
        else:
            figures.places.append(f"{name}:{node.lineno}: raises, unsaid: {node.name}")
    wanted = _times(node)
    if wanted:
        figures.timed += 1
        if all(pattern.search(docstring) for pattern in wanted):
            figures.timed_said += 1
        else:
            figures.places.append(f"{name}:{node.lineno}: clock or unit, unsaid: {node.name}")


def _times(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[re.Pattern[str]]:
    """Return what a docstring must name: the clock for points of time, a unit for lengths of time."""
    wanted = set()
    for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
        if argument.annotation is None or "float" not in ast.unparse(argument.annotation).split(" | "):
            continue
        if MOMENT.search(argument.arg):
            wanted.add(CLOCK)
        elif LENGTH.search(argument.arg):
            wanted.add(UNIT)
    return wanted


def main(arguments: list[str]) -> int:
    """Print the figures of the folders given and the places that fall short; return 1 if a figure misses its bar."""
    figures = measure(files_of(arguments))
    for name, (value, bound, bar) in figures.table().items():
        print(f"{value:7.1f}  {bound} {bar:<5}  {name}")
    print("\n".join(figures.places))
    return 1 if figures.short() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
