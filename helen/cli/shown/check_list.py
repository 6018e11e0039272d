"""Print the published checks for `helen checks`, with the faults of other files in Helen's folder."""

from __future__ import annotations

from typing import Any

from groundwork.terminal import echo
from helen.cli.base.ages import every
from helen.cli.base.options import plain, print_json, table


def show_checks(found: dict[str, Any], as_json: bool) -> None:
    """Print the published checks. Faults of other files in the folder go to standard error."""
    if as_json:
        print_json(found)
        return
    rows = [
        [check["name"], every(check["every"]), ", ".join(check["needs"]), check["sha256"][:12], check["summary"]]
        for check in found["checks"]
    ]
    table(["CHECK", "EVERY", "NEEDS", "CODE", "SUMMARY"], rows)
    for problem in found["problems"]:
        line = f":{problem['line']}" if problem["line"] else ""
        echo(f"{plain(problem['file'])}{line}: {problem['severity']}: {plain(problem['text'])}", err=True)
    for each in found["refused"]:
        what = "its removal was" if each["removed"] else "it was"
        text = f"{what} taken back with version {each['version']} ({plain(each['why'])}); the version before is kept"
        echo(f"{plain(each['file'])}: {text} until it changes, or until `helen push` names it", err=True)
    if found["waits"]:
        echo(plain(found["waits"]), err=True)
