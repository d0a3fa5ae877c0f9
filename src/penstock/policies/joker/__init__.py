"""Joker: organic adaptation by fission and fusion. The policy `organic`."""
