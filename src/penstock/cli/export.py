"""`penstock export`: the history of a run as files."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli import base, options, turn_options
from penstock.cli.standard_output import Streams


@base.command("export")
@options.run_dir()
@click.option(
    "--format",
    "kind",
    metavar="FORMAT",
    default="parquet",
    show_default=True,
    help="Format of the files: parquet, csv or json.",
)
@click.option("--out", metavar="DIR", help="Directory to write to.  [default: `export` in RUN_DIR]")
@turn_options.since
@turn_options.run
@options.as_json
def command(
    streams: Streams,
    run_dir: str,
    kind: str,
    out: str | None,
    since: str | None,
    run: int | None,
) -> None:
    """Write the history of a run as files for other tools.

    Example: penstock export runs/mine --format csv
    """
    from penstock.store import history
    from penstock.store.run_directory import local
    from penstock.views.export import export

    home = local(run_dir)
    history.dataflow(home)  # raises if there is no run
    moments = turn_options.selected(home, since, run)
    folder = home / "export" if out is None else Path(out).expanduser()
    written = export(home, folder, kind, moments[0].turn if moments else 0)
    files = {name: {"file": str(path), "rows": rows} for name, (path, rows) in written.items()}
    lines = [f"{rows:>9,} rows  {path}" for path, rows in written.values()]
    streams.print({"format": kind, "tables": files}, lines)
