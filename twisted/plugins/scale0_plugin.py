"""`twistd scale0`. Names the module only, so that `twistd --help` works where pyzmq is not installed."""

from twisted.application.service import ServiceMaker

scale0 = ServiceMaker("Scale0 broker", "scale0.tap", "A broker of a Scale0 network, over ZeroMQ.", "scale0")
