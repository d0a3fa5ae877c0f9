"""The environment in which Spark's JVM and its Python workers start."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path


def submitted() -> bool:
    """True if spark-submit started this process: its JVM, master and settings are given."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def prepare(master: str) -> None:
    """Set what is not set: which Python the workers run, the light home, the driver's name."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if "SPARK_HOME" not in os.environ and not needs_archive(master):
        home = light()
        if home is not None:
            os.environ["SPARK_HOME"] = str(home)
    if master.startswith("local"):  # elsewhere executors ask for the driver by its name
        os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")


def needs_archive(master: str) -> bool:
    """True if Spark ships `python/lib/pyspark.zip` of SPARK_HOME to the executors.

    YARN does, and refuses to start without it. Standalone workers and the images of Kubernetes
    have a SPARK_HOME of their own.
    """
    return master.startswith("yarn")


def light() -> Path | None:
    """A SPARK_HOME of links to the installed package without its `pyspark.zip`.

    Python finds pyspark in the environment anyway; from the zip, which holds no compiled
    modules, every Python process starts about three times slower. None where pyspark is no
    directory, which is so if it was imported from a zip itself.
    """
    import pyspark

    package = Path(pyspark.__file__).parent
    if not (package / "python" / "lib").is_dir():
        return None
    home = Path(tempfile.gettempdir()) / (
        f"penstock-spark-{pyspark.__version__}-{os.getuid()}-{zlib.crc32(str(package).encode()):08x}"
    )
    if (home / "ready").exists():
        return home
    building = Path(tempfile.mkdtemp(prefix="penstock-spark-"))
    for entry in package.iterdir():
        if entry.name != "python":
            (building / entry.name).symlink_to(entry)
    lib = building / "python" / "lib"
    lib.mkdir(parents=True)
    for entry in (package / "python" / "lib").iterdir():
        if entry.name != "pyspark.zip":
            (lib / entry.name).symlink_to(entry)
    (building / "ready").touch()
    try:
        building.rename(home)
    except OSError:  # another process was faster
        shutil.rmtree(building)
    return home if home.exists() else package


def defaults() -> Mapping[str, str]:
    """Settings of `spark-defaults.conf`, where the user has one."""
    folder = os.environ.get("SPARK_CONF_DIR") or Path(os.environ.get("SPARK_HOME", ".")) / "conf"
    file = Path(folder) / "spark-defaults.conf"
    if not file.is_file():
        return {}
    lines = (line.strip() for line in file.read_text().splitlines())
    pairs = (re.split(r"[\s=]+", line, maxsplit=1) for line in lines if line[:1] not in ("", "#"))
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
