"""Defines the function of bench/zerotask.py, alone in its folder: a node imports from where it is started."""

from zerotask.functions import task


@task("echo")
def echo(text: str) -> list[str]:
    return [text]
