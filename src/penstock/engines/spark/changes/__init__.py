"""Applies a change of plan while records flow."""
