"""Values with a rich representation in notebooks.

`views.notebook` makes the HTML. It is looked up when a value is first shown, so that the values
depend on no view.
"""

from __future__ import annotations

from importlib import import_module


class Shown:
    """Has a rich representation in notebooks."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(import_module("penstock.views.notebook").html(self))
