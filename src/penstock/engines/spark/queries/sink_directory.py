"""The directory of a file sink, wherever Spark can write: names, moves and removals in it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Folder(Protocol):
    """Names are relative to the directory; "" is the directory itself."""

    @staticmethod
    def at(path: str, spark: SparkSession) -> Folder:
        """A directory of this machine, or of any file system that Hadoop knows."""
        return _Remote(path, spark) if "://" in path else _Local(Path(path).absolute())

    def path(self, name: str) -> str:
        """The path as Spark wants it."""

    def files(self, name: str) -> list[str]:
        """All files inside, at any depth, as names relative to it; sorted."""

    def holds(self, name: str) -> bool:
        """Whether there is something of that name; False if the directory is missing."""

    def move(self, old: str, new: str) -> None:
        """Give a file another name, in a directory that is made if needed.

        Raises if that did not work.
        """

    def remove(self, name: str) -> None:
        """Delete a file, or a directory with all that is in it."""


class _Local(Folder):
    """Plain calls: a trip to the JVM for each of them would be most of a small batch."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def path(self, name: str) -> str:
        return f"file://{self._root / name}"

    def files(self, name: str) -> list[str]:
        top = self._root / name
        found = (Path(folder, file) for folder, _, files in os.walk(top) for file in files)
        return sorted(str(file.relative_to(top)) for file in found)

    def holds(self, name: str) -> bool:
        return (self._root / name).exists()

    def move(self, old: str, new: str) -> None:
        source, target = self._root / old, self._root / new
        target.parent.mkdir(parents=True, exist_ok=True)
        source.replace(target)
        # Spark leaves a checksum beside each file, under the name it had.
        source.with_name(f".{source.name}.crc").unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        target = self._root / name
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink()


class _Remote(Folder):
    """Through Hadoop's own file systems, as Spark's writer goes."""

    def __init__(self, root: str, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._root = root.rstrip("/")
        self._path = jvm.org.apache.hadoop.fs.Path
        settings = spark.sparkContext._jsc.hadoopConfiguration()
        self._files = self._path(self._root).getFileSystem(settings)

    def path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def files(self, name: str) -> list[str]:
        top = self._files.makeQualified(self._path(self.path(name)))
        found, each = [], self._files.listFiles(top, True)
        while each.hasNext():
            path = each.next().getPath()
            found.append(str(path.toUri().getPath())[len(top.toUri().getPath()) :].lstrip("/"))
        return sorted(found)

    def holds(self, name: str) -> bool:
        return bool(self._files.exists(self._path(self.path(name))))

    def move(self, old: str, new: str) -> None:
        target = self._path(self.path(new))
        self._files.mkdirs(target.getParent())
        if not self._files.rename(self._path(self.path(old)), target):
            raise OSError(f"cannot move {self.path(old)} to {self.path(new)}")

    def remove(self, name: str) -> None:
        self._files.delete(self._path(self.path(name)), True)
