"""Values that a notebook shows as more than a line of text.

How they look is for `report/notebook.py` to say; the values only know that there is such a thing,
and it is loaded when somebody first looks. So what is below `report` needs nothing of it.
"""

from __future__ import annotations

from importlib import import_module


class Shown:
    """Has a rich representation in notebooks."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(import_module("penstock.views.notebook").html(self))
