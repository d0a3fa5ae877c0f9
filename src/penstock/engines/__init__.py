"""Engines that run a dataflow under a plan: in memory, simulated, on Spark."""
