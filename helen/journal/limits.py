"""Holds the journal's bounds, each with the reason for its figure."""

from __future__ import annotations

from attrs import frozen

MIB = 1024 * 1024


@frozen
class Limits:
    """Holds the bounds of one journal. Defaults are the product's; tests make them small."""

    # A segment: Spark pays about 3 ms per file, so bigger is better; 10 s is the trigger of the pipeline.
    results_per_segment: int = 20_000
    segment_seconds: float = 10.0
    # Of a WAL, and of its rows in memory, where they stay until they are sealed. 20,000 small results have 12 MiB.
    segment_bytes: int = 64 * MIB
    # Changes are rows of the same kind: a storm of them closes a WAL as well.
    changes_per_segment: int = 100_000

    # One fdatasync costs 0.15 to 0.66 ms, one thread switch less: 100 groups a second cost 2 to 7 % of a core.
    group_seconds: float = 0.010
    # A group of so many results for which nobody waits is given more time: 1,000 results a second take 20 % less CPU.
    # With fewer there is little to save, and with more each sync is shared by many already.
    calm_seconds: float = 0.040
    calm_least: int = 4
    calm_records: int = 32
    calm_bytes: int = 64 * 1024
    # A group is one write and one sync: 4 MiB take some 10 ms.
    group_bytes: int = 4 * MIB
    group_records: int = 2_000

    # Records of one step in the reactor's thread, which takes some 35 us for each, and shall not be held up for 1 ms.
    batch_records: int = 20
    # A result above this is read by the writer thread, which may be interrupted.
    great_bytes: int = 16 * 1024

    # Above this each connection may send its share only: an ack waits for a group that is written and one that is next.
    backlog_behind: int = 8 * MIB
    records_behind: int = 4_000
    # Above this the connections stop reading: 10,000 small results per MiB make it several seconds of the fastest disk.
    backlog_full: int = 16 * MIB
    # Results that were read already when `full` turned true still come: above this `append` refuses.
    backlog_most: int = 64 * MIB

    # Check ids that one agent may fill series.parquet with: --quota series=MOST.
    series_per_agent: int = 4_096

    # Disk trouble: recovery within 5 s after space returns needs a try each second.
    retry_seconds: float = 1.0
    # Closed WALs that keep their rows in memory while the sealing thread is behind; others are read back from disk.
    sealed_in_memory: int = 2
    # Records handed back by `open` for the live state: a crash can leave one or two segments unapplied.
    recovered_records: int = 40_000
    # `close` must end within 2 s: a WAL that isn't sealed by then is sealed by the next `open`.
    close_seconds: float = 1.5
