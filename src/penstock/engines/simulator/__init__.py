"""A simulated cluster."""
