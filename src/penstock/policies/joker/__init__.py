"""Joker: organic adaptation by splitting, merging and scaling pipelines. Policy `organic`."""
