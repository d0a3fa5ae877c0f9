"""Joker: organic adaptation by splitting, merging and scaling. Policy `organic`."""
