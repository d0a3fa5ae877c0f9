"""Policies: who decides. `get` makes one by name; see `registry`."""

from penstock.policies.base.registry import GROUP, Description, Option, describe, get, names

__all__ = ["GROUP", "Description", "Option", "describe", "get", "names"]
