"""Read the keys of Zabbix' items: `vfs.fs.size[/var,pfree]` is a name with two parameters. Pure."""

from __future__ import annotations

MOST_PARAMETERS = 20


def parts_of(key: str) -> list[str]:
    """Return the name of a key, and its parameters behind it; one in quotes may have a comma in it."""
    name, bracket, rest = key.partition("[")
    if not bracket:
        return [name]
    found, text, at, is_quoted = [name], "", 0, False
    rest = rest.removesuffix("]")
    while at < len(rest):
        letter = rest[at]
        if is_quoted and letter == "\\" and rest[at + 1 : at + 2] == '"':
            text, at = text + '"', at + 1
        elif letter == '"' and (is_quoted or not text.strip()):
            is_quoted, text = not is_quoted, text if is_quoted else ""
        elif letter == "," and not is_quoted:
            found, text = [*found, text], ""
        else:
            text += letter
        at += 1
    return [*found, text][: MOST_PARAMETERS + 1]
