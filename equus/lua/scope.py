"""Which declaration a name refers to, kept up to date while the parser reads on. Pure."""

from equus.lua.tree import GlobalUse, Name, Variable


class Scopes:
    """Nested blocks of local names; what is found nowhere is a global."""

    def __init__(self) -> None:
        self._blocks: list[dict[str, Variable]] = [{}]
        self.variables: list[Variable] = []
        self.globals: list[GlobalUse] = []

    def open(self) -> None:
        """A block begins."""
        self._blocks.append({})

    def close(self) -> None:
        """The innermost block ends."""
        self._blocks.pop()

    def declare(self, name: str, line: int, kind: str) -> Variable:
        """A local name from here on; an earlier one of the same name is hidden."""
        variable = Variable(name, line, kind)
        self._blocks[-1][name] = variable
        self.variables.append(variable)
        return variable

    def name(self, name: str, line: int) -> Name:
        """A name as it is used here."""
        for block in reversed(self._blocks):
            if name in block:
                return Name(line, name, block[name])
        return Name(line, name, None)

    def read(self, name: Name, path: tuple[str, ...] = ()) -> None:
        """The value of a name is taken; `path` is what of it, by constant names."""
        if name.variable is not None:
            name.variable.reads += 1
        else:
            self.globals.append(GlobalUse(name.line, (name.name, *path), written=False))

    def write(self, name: Name) -> None:
        """The name gets another value."""
        if name.variable is not None:
            name.variable.writes += 1
        else:
            self.globals.append(GlobalUse(name.line, (name.name,), written=True))
