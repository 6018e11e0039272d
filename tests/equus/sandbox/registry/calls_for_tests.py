"""Provide a registry of host calls for the tests of the sandbox, which the broker imports."""

import os
import time

from equus.capabilities.calls import Call, CallFailed


def echo(args, policy, context):
    """Return the arguments as they came."""
    return args


def blob(args, policy, context):
    """Return a text of so many bytes."""
    return "b" * int(args[0])


def refuse(args, policy, context):
    """Fails as asked."""
    raise CallFailed(args[0], args[1])


def broken(args, policy, context):
    """Raise an error as a bug of the registry would."""
    raise KeyError("a bug")


def unplain(args, policy, context):
    """Return a value that is no plain data."""
    return {1, 2}


def wait(args, policy, context):
    """Takes its time, as long as the run has any."""
    time.sleep(max(0.0, min(args[0], context.deadline - time.monotonic())))
    return context.deadline - time.monotonic()


def held(args, policy, context):
    """Answers once this file exists, or when the run's time is over."""
    while not os.path.exists(args[0]) and time.monotonic() < context.deadline:
        time.sleep(0.01)


def die(args, policy, context):
    """Ends the whole broker."""
    os._exit(1)


CALLS = {
    "echo": Call("host", echo),
    "group.echo": Call("host", echo),
    "blob": Call("host", blob),
    "refuse": Call("host", refuse),
    "broken": Call("host", broken),
    "unplain": Call("host", unplain),
    "wait": Call("host", wait),
    "held": Call("host", held),
    "die": Call("host", die),
    "secret": Call("file", echo),
}
