"""Carrying out a change of plan while records flow."""
