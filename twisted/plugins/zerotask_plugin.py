"""`twistd zerotask`."""

from twisted.application.service import ServiceMaker

zerotask = ServiceMaker("ZeroTask", "zerotask.tap", "A durable task broker: JSON-RPC 2.0 over ZeroMQ.", "zerotask")
