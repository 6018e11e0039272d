"""Write a set as a tar archive that is the same for the same files. Pure."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping

from helen.sets.refused import SetRefused

LONGEST_NAME = 100


def tar_of(files: Mapping[str, bytes], top: str) -> bytes:
    """Return an archive of these files in one folder. Raises SetRefused for a name that it can't hold."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(files):
            if len(f"{top}/{name}") > LONGEST_NAME:
                raise SetRefused(f"{top}/{name} has more than {LONGEST_NAME} characters: give it a shorter name")
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size = len(files[name])
            entry.mode = 0o644
            archive.addfile(entry, io.BytesIO(files[name]))
    return out.getvalue()
