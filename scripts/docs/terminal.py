"""A picture of the live view, from a real run: `python scripts/docs/terminal.py FLOW OUT.svg ...`.

The words behind the file are options of `penstock run`: what is drawn is the last moment before the
run drains, in a terminal of 104 columns.
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path

from rich.console import Console

from penstock.app import run
from penstock.cli import flows
from penstock.control.status import Status
from penstock.views.live import LiveView

WIDE, HIGH = 104, 34
FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
{styles}
</style>
<defs>{lines}</defs>
<rect fill="#10161d" x="0" y="0" width="{width}" height="{height}" rx="8"/>
<g transform="translate({terminal_x}, 24)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g></g></svg>
"""
"""As `rich` draws a terminal, but without a font from elsewhere and without a window's buttons."""


class Recorder:
    """The live view, drawn to nowhere; `last` is what it showed before the flow drained."""

    def __init__(self) -> None:
        self.console = Console(
            file=io.StringIO(), width=WIDE, height=HIGH, force_terminal=True, record=True
        )
        self.view = LiveView(self.console)
        self.last: str | None = None

    def show(self, status: Status) -> None:
        self.view.show(status)
        if status.phase == "running":
            self.last = self._drawn()

    def close(self) -> None:
        self.view.close()

    def _drawn(self) -> str:
        page = Console(
            file=io.StringIO(), width=WIDE, height=HIGH, force_terminal=True, record=True
        )
        page.print(self.view._draw())
        return page.export_svg(code_format=FORMAT, unique_id="live")


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("flow")
    words.add_argument("out", type=Path)
    words.add_argument("--policy", default="latency")
    words.add_argument("--load")
    words.add_argument("--for", dest="seconds", default="80s")
    words.add_argument("--run-dir")
    given = words.parse_args()
    recorder = Recorder()
    run(
        flows.Reference.read(given.flow).load("out"),
        policy=given.policy,
        load=given.load,
        seconds=given.seconds,
        run_dir=given.run_dir,
        view=recorder,
    )
    assert recorder.last is not None
    given.out.write_text(recorder.last, encoding="utf-8")


if __name__ == "__main__":
    main()
