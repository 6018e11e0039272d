"""The port of agents, where nothing else is said (docs/protocol.rst, section 1); the next one is that of the API."""

DEFAULT_PORT = 4166
