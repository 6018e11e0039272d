"""Records google-re2's verdicts on random patterns and texts into re2_verdicts.txt: `python re2_verdicts.py`.

Needs `pip install google-re2`; the tests need the file alone. Each line is a JSON list: a pattern, and a hexadecimal
number whose bit N says whether all of TEXTS[N] is matched, or null if RE2 refuses the pattern.
"""

from __future__ import annotations

import json
import random
from importlib import import_module
from pathlib import Path

FILE = Path(__file__).with_suffix(".txt")
PATTERNS = 3_000
DEPTH = 3  # of groups in groups
KELVIN, LONG_S, THREE = "\N{KELVIN SIGN}", "\N{LATIN SMALL LETTER LONG S}", "\N{ARABIC-INDIC DIGIT THREE}"
ATOMS = [
    *(
    r"a b B é É ß s k K 1 _ - . / \\ \d \D \w \W \s \S \. \- \n \t \v \f \r \/ \_ \é \x \1"
    r" [ab] [^a] [a-c] [\d_] [^\w] [\s-] []a] [a-] [^]] [a\]] [a&&b] [a||b] [a~~b] [é-ü] [\D] [\W1] [[] [.] [*] [\.\-]"
    r" [\d-] [-\w] [a-\d] [\d^] [^\s] []\d] [\\d-z] [&\w] [z-a]"
    ).split(),
    KELVIN, LONG_S, THREE, f"[{THREE}\\d]", f"[^{LONG_S}\\W]",
]  # fmt: skip
REPEATS = "* + ? {2} {1,3} {0,} *? +? ?? {2}? {0} {3,1} **".split()
RE2_ALONE = ("=]", "=}", "{,3}", "[\\d-z]", "\\a", "\\b")  # RE2 accepts them, labels have no use for them
LETTERS = f"abBéÉßs{LONG_S}kK{KELVIN}1{THREE}_-. \n\t\v\f\r\u00a0/]\\&|~[*"


def texts() -> list[str]:
    """Return 64 texts of up to four letters, always the same."""
    rng = random.Random(2)
    return ["", *LETTERS[:23], *("".join(rng.choices(LETTERS, k=rng.randint(2, 4))) for _ in range(40))]


def patterns() -> list[str]:
    """Return random patterns, always the same, the short ones first."""
    rng, found = random.Random(1), dict.fromkeys(ATOMS)
    while len(found) < PATTERNS:
        front, end = rng.choice(("", "", "", "(?i)", "^")), rng.choice(("", "", "", "$"))
        found[f"{front}{_pattern(rng, DEPTH)}{end}"] = None
    return sorted(found, key=lambda pattern: (len(pattern), pattern))


def _pattern(rng: random.Random, depth: int) -> str:
    kind = rng.random()
    if depth == 0 or kind < 0.4:
        return rng.choice(ATOMS if rng.random() < 0.97 else RE2_ALONE)
    if kind < 0.6:
        return "".join(_pattern(rng, depth - 1) for _ in range(rng.randint(1, 4)))
    if kind < 0.8:
        inner = "|".join(_pattern(rng, depth - 1) for _ in range(rng.randint(1, 3)))
        return f"{rng.choice(('(', '(?:'))}{inner})"
    return f"({_pattern(rng, depth - 1)}){rng.choice(REPEATS)}"


def main() -> None:
    """Write the file. `.` matches a newline, as it does in helen.states.linear_regex."""
    re2 = import_module("re2")
    options = re2.Options()
    options.dot_nl, options.log_errors = True, False
    lines = []
    for pattern in patterns():
        body = pattern.removeprefix("(?i)")
        whole = f"{'(?i)' if body != pattern else ''}^(?:{body})$"
        try:
            compiled = re2.compile(whole, options)
        except re2.error:
            lines.append(json.dumps([pattern, None]))
            continue
        mask = sum(1 << at for at, text in enumerate(texts()) if compiled.fullmatch(text))
        lines.append(json.dumps([pattern, f"{mask:x}"]))
    FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
