"""All host calls by the name that Lua uses. The broker looks calls up here; it performs nothing that is not listed."""

from equus.capabilities.calls import Call, CallFailed, Context

__all__ = ["CALLS", "Call", "CallFailed", "Context"]

CALLS: dict[str, Call] = {}
