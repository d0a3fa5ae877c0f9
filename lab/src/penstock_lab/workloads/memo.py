"""State of a key in a stateful processor: a JSON value under a name."""

from __future__ import annotations

import json
from typing import Any


class Memo:
    """One state value of the current key."""

    def __init__(self, handle: Any, name: str, start: Any) -> None:
        self._state = handle.getValueState(name, "json string")
        self._start = json.dumps(start)

    def read(self) -> Any:
        """The value written last for the key, or the initial one."""
        return json.loads(self._state.get()[0] if self._state.exists() else self._start)

    def write(self, value: Any) -> None:
        self._state.update((json.dumps(value),))
