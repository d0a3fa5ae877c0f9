"""Reading a plan from a file."""

from __future__ import annotations

import json
from pathlib import Path

from penstock.errors import InvalidInput, InvalidPlan
from penstock.plan.plan import Plan


def read(path: str) -> Plan:
    """The plan in a JSON file; an object with a `plan` in it, as `explain` prints, will do too."""
    try:
        data = json.loads(Path(path).expanduser().read_text())
    except OSError as error:
        raise InvalidInput(f"cannot read the plan file '{path}': {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"the plan file '{path}' is not text") from None
    except json.JSONDecodeError as error:
        raise InvalidInput(
            f"the plan file '{path}' is not JSON: {error.msg} in line {error.lineno}"
        ) from None
    except (ValueError, RecursionError):  # more digits or brackets than anybody writes
        raise InvalidInput(f"the plan file '{path}' is not JSON we can read") from None
    if isinstance(data, dict) and "plan" in data:
        data = data["plan"]
    try:
        return Plan.from_json(data)
    except InvalidPlan as error:
        raise InvalidPlan(f"the plan file '{path}': {error}") from None
