"""Process started by `Beside`: serves the run named on stdin until stdin closes."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

from penstock.dashboard.serving import serve


def main() -> None:
    told = json.loads(sys.stdin.readline())
    listening = socket.socket(fileno=told["socket"])
    serve(Path(told["run_dir"]), listening, told["token"], until=sys.stdin.read)


if __name__ == "__main__":
    main()
