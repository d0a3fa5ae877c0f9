"""Scaling policies, one package a paper; `get` creates one by name and options."""

from penstock.policies.base.registry import GROUP, Description, Option, describe, get, names

__all__ = ["GROUP", "Description", "Option", "describe", "get", "names"]
