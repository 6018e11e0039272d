"""Lists the segments that a lake of an older version has already, from its results, once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from helen.pipeline.ingest.histories import RESULTS as KIND
from helen.pipeline.ingest.taken import NEEDED, listed
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import batches, held
from helen.pipeline.lake.schema import RESULTS, TAKEN


def list_earlier(lake: Lake, ids: Mapping[int, str]) -> int:
    """Bring the table `segments` up to `results` for Helens that it has nothing of. Returns the rows written.

    Rows of one segment may come from several files: they add up. The caller has the lock of the lake.
    """
    names = {helen: f"{KIND}:{identity}" for helen, identity in ids.items()}
    missing = [
        helen for helen, name in names.items() if not lake.done(TAKEN.name, name) and lake.done(RESULTS.name, name)
    ]
    if not missing:
        return 0
    paths = [file.path for file in held(lake, RESULTS.name, lake.files(RESULTS.name))]
    read = (batch for path in paths for batch in batches(RESULTS, [path], NEEDED, None))  # file by file: none ahead
    parts = (pa.Table.from_batches([batch]) for batch in read)
    rows = listed(part.filter(pa.array(np.isin(part["helen"].to_numpy(), missing))) for part in parts)
    done = {names[helen]: lake.done(RESULTS.name, names[helen]) for helen in missing}
    return lake.publish(TAKEN.name, lake.stage_rows(TAKEN.name, rows), done)
