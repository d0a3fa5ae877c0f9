"""Nephele: latency constraints met with the fewest instances. Policy `latency`."""
