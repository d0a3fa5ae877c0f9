"""Predictions: simulator calibration, what-if runs, policy advice, profiling."""
