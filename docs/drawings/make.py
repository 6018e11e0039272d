"""Write the drawings of docs/drawings.rst: `python docs/drawings/make.py [FOLDER]`, this folder by default.

tests/test_drawings.py fails while the files that git has differ from what this writes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from scenes import SCENES


def main(arguments: list[str]) -> int:
    """Write each drawing into the folder, and print the names of those that have changed."""
    folder = Path(arguments[0]) if arguments else Path(__file__).parent
    for name, scene in SCENES.items():
        path, text = folder / f"{name}.svg", scene().svg()
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(path.name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
