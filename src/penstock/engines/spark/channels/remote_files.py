"""Small files in a directory that may be on any file system pyarrow reaches."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pyarrow import fs as arrow_fs


@dataclass(frozen=True)
class FileStore:
    """A directory by path or URI. Writes are atomic: a reader sees a file whole or not at all."""

    root: str

    @cached_property
    def _at(self) -> tuple[Any, str]:
        if "://" in self.root:
            # Hadoop's s3a is pyarrow's s3.
            found, path = arrow_fs.FileSystem.from_uri(self.root.replace("s3a://", "s3://", 1))
            return found, path
        return arrow_fs.LocalFileSystem(), str(Path(self.root).absolute())

    @property
    def filesystem(self) -> Any:
        return self._at[0]

    def path(self, name: str = "") -> str:
        """The path of a file inside, as the file system wants it."""
        return f"{self._at[1]}/{name}" if name else self._at[1]

    def uri(self, name: str = "") -> str:
        """The path of a file inside, as Spark wants it."""
        if "://" in self.root:
            return f"{self.root.rstrip('/')}/{name}" if name else self.root
        # Hadoop takes a path literally: "%20" would be three characters of a name.
        return f"file://{self.path(name)}"

    def child(self, name: str) -> FileStore:
        """A directory inside."""
        return FileStore(f"{self.root.rstrip('/')}/{name}")

    def names(self, prefix: str = "") -> list[str]:
        """Names directly inside that start with `prefix`, sorted; empty if there is no such dir."""
        selector = arrow_fs.FileSelector(self.path(), allow_not_found=True)
        infos = self.filesystem.get_file_info(selector)
        return sorted(i.base_name for i in infos if i.base_name.startswith(prefix))

    def exists(self, name: str) -> bool:
        found = self.filesystem.get_file_info(self.path(name))
        return bool(found.type != arrow_fs.FileType.NotFound)

    def make(self) -> FileStore:
        self.filesystem.create_dir(self.path(), recursive=True)
        return self

    def read(self, name: str) -> Any:
        """The JSON value in a file."""
        with self.filesystem.open_input_file(self.path(name)) as file:
            return json.loads(file.read())

    def write(self, name: str, value: Any) -> None:
        """Put a JSON value into a file, whole."""
        self.write_bytes(name, json.dumps(value).encode())

    def write_bytes(self, name: str, data: bytes) -> None:
        head, _, tail = name.rpartition("/")
        draft = self.path(f"{head}/.{tail}.draft" if head else f".{tail}.draft")
        with self.filesystem.open_output_stream(draft) as file:
            file.write(data)
        self.filesystem.move(draft, self.path(name))

    def remove(self, name: str) -> None:
        """Delete a file or a directory; one that is gone is no error."""
        info = self.filesystem.get_file_info(self.path(name))
        if info.type == arrow_fs.FileType.Directory:
            self.filesystem.delete_dir(info.path)
        elif info.type != arrow_fs.FileType.NotFound:
            self.filesystem.delete_file(info.path)
