"""Makes fixtures of an authority and its store, without a reactor."""

from authority_stage import inbox, make_stage, now, request_of, stage, stages

__all__ = ["inbox", "make_stage", "now", "request_of", "stage", "stages"]
