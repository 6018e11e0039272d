"""Write what an import took over, and by name what it did not, and why. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from groundwork.counts import count
from helen.importing.found import Found

MOST_NAMES = 200  # after one sentence


def summary(found: Found) -> str:
    """Return one sentence with the counts."""
    share = 100.0 if not found.total else 100.0 * (found.total - len(found.omitted)) / found.total
    taken = found.total - len(found.omitted)
    return f"{taken} of {count(found.total, 'service')} of {count(len(found.hosts), 'host')} run ({share:.0f} %)"


def text(found: Found, agent: str, with_policy: Sequence[str]) -> str:
    """Return the whole report, for people."""
    lines = [f"Import of {found.source}", "", summary(found) + ".", ""]
    lines += ["What is to be done", ""]
    lines += [f"- `helen token {agent}` makes the machine of the old core an agent, if it isn't one."]
    lines += [f"- policy/{each}.toml holds what goes into /etc/equus/policy.toml on {each}." for each in with_policy]
    lines += ["- `helen apply -f THIS-FOLDER --dry-run` shows what would change, `--yes` puts it into force.", ""]
    if found.omitted:
        lines += ["Not taken over", ""]
        lines += [f"- {_plain(name)}: {_plain(why)}" for name, why in found.omitted] + [""]
    if found.remarks:
        lines += ["Taken over with differences", ""]
    for sentence, names in found.remarks.items():
        lines.append(f"- {_plain(sentence)}{':' if names else ''}")
        lines += [f"    {_plain(name)}" for name in names[:MOST_NAMES]]
        lines += [f"    and {len(names) - MOST_NAMES} more"] if len(names) > MOST_NAMES else []
    return "\n".join(lines).rstrip() + "\n"


def _plain(text: str) -> str:
    """Return a text without what would steer a terminal or break the list."""
    return "".join(character if character.isprintable() else "?" for character in text)
