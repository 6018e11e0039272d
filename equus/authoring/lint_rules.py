"""Find problems in one parsed Lua source: undefined globals, host calls, units, unused names. Pure.

GLOBALS repeats the names of the sandbox's environment (sandbox/lua/environment.lua); a test compares the two.
"""

import difflib
from collections.abc import Collection, Iterator, Mapping

from attrs import field, frozen

from equus.capabilities.names import ALWAYS_THERE, CAPABILITIES, CAPABILITY_OF
from equus.lua.tree import Chunk, Constant, Function, GlobalUse, Path, Table, Variable, dotted

ERROR, WARNING = "error", "warning"
_NOTHING: frozenset[str] = frozenset()
_WORDS = {
    "string": "byte char find format gmatch gsub len lower match pack packsize rep reverse sub unpack upper",
    "table": "concat insert move pack remove sort unpack",
    "math": "abs acos asin atan ceil cos deg exp floor fmod huge log max maxinteger min mininteger modf pi rad"
    " random randomseed sin sqrt tan tointeger type ult",
    "utf8": "char charpattern codepoint codes len offset",
    "os": "clock difftime time",
    "coroutine": "close create isyieldable resume running status wrap yield",
}
# The globals that a check sees, with the fields of tables.
GLOBALS: dict[str, frozenset[str]] = {
    **dict.fromkeys(
        "_G _VERSION assert error getmetatable ipairs next pairs pcall print rawequal rawget rawlen rawset require"
        " select setmetatable tonumber tostring type xpcall".split(),
        _NOTHING,
    ),
    **{name: frozenset(words.split()) for name, words in _WORDS.items()},
}
# Groups such as host.file: reading the group itself is no call.
_GROUPS = {name.split(".")[0] for name in (*CAPABILITY_OF, *ALWAYS_THERE) if "." in name}
_HOST_NAMES = {name.split(".")[0] for name in (*CAPABILITY_OF, *ALWAYS_THERE)}


@frozen
class Problem:
    """Describes one problem, on a line. A file with an error is not published."""

    line: int
    severity: str
    text: str


@frozen
class HostUse:
    """Holds the host calls of a source, by name, with the line of the first. `computed`: some have no constant name."""

    calls: Mapping[str, int] = field(factory=dict)
    computed: bool = False


# The least similarity (difflib's ratio) of a typing error: `dsk` means `disk`, `oops` does not mean `os`.
_SIMILARITY = 0.7


def nearest(word: str, words: Collection[str], before: str = "") -> str:
    """Return "; did you mean x?" if a known word is similar, else ""; `before` is written before that word."""
    found = difflib.get_close_matches(word, sorted(words), 1, _SIMILARITY)
    return f"; did you mean {before}{found[0]}?" if found else ""


def lint_globals(chunk: Chunk) -> Iterator[Problem]:
    """Yield a problem for each undefined name, and each global that is assigned."""
    assigned = {use.path[0] for use in chunk.globals if use.written}
    reported = set()
    for use in chunk.globals:
        text = _global_fault(use, assigned)
        if text and (use.path[:2], use.written) not in reported:
            reported.add((use.path[:2], use.written))
            yield Problem(use.line, ERROR, text)


def _global_fault(use: GlobalUse, assigned: set[str]) -> str | None:
    name = use.path[0]
    if use.written:
        return f"{name} is assigned but not local: write `local {name}`"
    if name not in GLOBALS:
        return None if name in assigned else f"{name} is not defined{nearest(name, GLOBALS)}"
    fields = GLOBALS[name]
    if fields and len(use.path) > 1 and use.path[1] not in fields:
        return f"{name}.{use.path[1]} does not exist in a check{nearest(use.path[1], fields)}"
    return None


def lint_unused(chunk: Chunk) -> Iterator[Problem]:
    """Yield a problem for each unread local. In `local a, b = f()` a is a placeholder if b is read."""
    for variable in chunk.variables:
        if variable.kind in ("local", "function") and not variable.name.startswith("_") and _is_unused(variable):
            yield Problem(variable.line, WARNING, f"{variable.name} is never used")


def _is_unused(variable: Variable) -> bool:
    return variable.reads == 0 and not any(later.reads for later in variable.later)


def is_host(path: Path) -> bool:
    """Return True if a path begins at `host`, the name of `run`'s second parameter by convention."""
    return path.root.name == "host" and path.root.variable is not None


def host_use(chunk: Chunk) -> tuple[HostUse, list[Problem]]:
    """Return the host calls of a source, and a problem for each that does not exist."""
    calls: dict[str, int] = {}
    problems = []
    computed = False
    for path in filter(is_host, chunk.paths):
        name = _call_name(path.names)
        if path.computed:
            computed = True
        elif name is None:
            problems.append(Problem(path.line, ERROR, _unknown_call(path.names)))
        elif name in CAPABILITY_OF:
            calls.setdefault(name, path.line)
    return HostUse(calls, computed), problems


def _call_name(names: tuple[str, ...]) -> str | None:
    """Return the call that these names mean; "" for `host` itself and for groups, None if there is no such call."""
    if not names or (len(names) == 1 and names[0] in _GROUPS):
        return ""
    for length in (2, 1):
        name = ".".join(names[:length])
        if name in CAPABILITY_OF or name in ALWAYS_THERE:
            return name
    return None


def _unknown_call(names: tuple[str, ...]) -> str:
    if names[0] in _GROUPS:
        known = [name for name in (*CAPABILITY_OF, *ALWAYS_THERE) if name.startswith(f"{names[0]}.")]
        return f"host.{'.'.join(names[:2])} does not exist; there is host.{', host.'.join(known)}"
    return f"host.{names[0]} does not exist{nearest(names[0], _HOST_NAMES, 'host.')}"


def lint_needs(needs: Collection[str], line: int, use: HostUse) -> Iterator[Problem]:
    """Yield a problem for each difference between `needs` and the calls that are made, libraries included."""
    for name, at in use.calls.items():
        if CAPABILITY_OF[name] not in needs:
            yield Problem(at, ERROR, f'host.{name} needs "{CAPABILITY_OF[name]}": add it to needs')
    used = {CAPABILITY_OF[name] for name in use.calls}
    for need in needs:
        if need not in CAPABILITIES:
            yield Problem(line, ERROR, f'needs lists "{need}", which is no capability{nearest(need, CAPABILITIES)}')
        elif need not in used and not use.computed and need not in ("log", "state"):
            yield Problem(line, WARNING, f'needs lists "{need}", and no call uses it')


def lint_units(chunk: Chunk) -> Iterator[Problem]:
    """Yield a problem for each metric without a unit."""
    for call in chunk.calls:
        chain = dotted(call.callee)
        if chain is None or chain[0].name != "host" or chain[0].variable is None or chain[1] != ("metric",):
            continue
        options = call.arguments[2] if len(call.arguments) > 2 else None
        name = call.arguments[0] if call.arguments else None
        shown = f'"{name.value}"' if isinstance(name, Constant) else "this metric"
        if len(call.arguments) < 2:
            yield Problem(call.line, ERROR, "host.metric takes a name and a value")
        elif options is None or (isinstance(options, Table) and not _names_unit(options)):
            text = f'{shown} has no unit: write unit = "B" (or s, %, c, a name; "" for a bare number)'
            yield Problem(call.line, WARNING, text)


def _names_unit(options: Table) -> bool:
    return any(isinstance(key, Constant) and key.value == "unit" for key, _ in options.items)


def required(chunk: Chunk) -> dict[str, int]:
    """Return the names that `require` is called with, and the line of the first call: {"words": 3}."""
    found: dict[str, int] = {}
    for call in chunk.calls:
        chain = dotted(call.callee)
        if chain and chain[0].name == "require" and chain[0].variable is None and not chain[1] and call.arguments:
            name = call.arguments[0]
            if isinstance(name, Constant) and isinstance(name.value, str):
                found.setdefault(name.value, call.line)
    return found


def lint_parameters(function: Function) -> Iterator[Problem]:
    """Yield a problem if the second parameter of `run` isn't called host: the rules above depend on that name."""
    if len(function.parameters) > 1 and function.parameters[1] != "host":
        yield Problem(
            function.line, WARNING, "call the second parameter of run `host`, so that its calls can be checked"
        )
