"""Channels between pipelines, and what controls how they are read."""
