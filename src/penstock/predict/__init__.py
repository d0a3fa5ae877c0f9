"""Predictions: calibration of the simulator, what-if, advice, profiling."""
