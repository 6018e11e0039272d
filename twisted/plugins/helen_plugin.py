"""`twistd helen`."""

from twisted.application.service import ServiceMaker

helen = ServiceMaker("Helen", "helen.tap", "The monitoring server that Equus agents report to.", "helen")
