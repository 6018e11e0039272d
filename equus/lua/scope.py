"""Find the declaration that a name refers to, while the parser reads on. Pure."""

from equus.lua.tree import GlobalUse, Name, Variable


class Scopes:
    """Holds the nested blocks of local names. A name that is found in none is a global."""

    def __init__(self) -> None:
        self._blocks: list[dict[str, Variable]] = [{}]
        self.variables: list[Variable] = []
        self.globals: list[GlobalUse] = []

    def open(self) -> None:
        """Begin a block."""
        self._blocks.append({})

    def close(self) -> None:
        """End the innermost block."""
        self._blocks.pop()

    def declare(self, name: str, line: int, kind: str) -> Variable:
        """Declare a local name, which hides an earlier one of the same name."""
        variable = Variable(name, line, kind)
        self._blocks[-1][name] = variable
        self.variables.append(variable)
        return variable

    def name(self, name: str, line: int) -> Name:
        """Return a name that is used here, with its variable if it is a local."""
        for block in reversed(self._blocks):
            if name in block:
                return Name(line, name, block[name])
        return Name(line, name, None)

    def read(self, name: Name, path: tuple[str, ...] = ()) -> None:
        """Record a read of a name; `path` has the constant names behind it, as in `os.execute`."""
        if name.variable is not None:
            name.variable.reads += 1
        else:
            self.globals.append(GlobalUse(name.line, (name.name, *path), written=False))

    def write(self, name: Name) -> None:
        """Record an assignment to a name."""
        if name.variable is not None:
            name.variable.writes += 1
        else:
            self.globals.append(GlobalUse(name.line, (name.name,), written=True))
