"""Where records come from and where they go, as values. Nothing here opens anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from penstock.dataflow.schema import Schema
from penstock.errors import InvalidInput


@dataclass(frozen=True)
class Generator:
    """A seeded source: the same seed gives the same records, at the rate of a load profile.

    `make(rng, index, at)` is called for blocks of records: `index` (int64 array) numbers them
    from 0, `at` (float array) is when each is due, in seconds since the start, and `rng` is a
    NumPy generator that depends on the seed and the block alone. It returns one array-like a
    column, by name. `load` is written as on the command line (`penstock run --load`).
    """

    kind: ClassVar[str] = "generator"
    make: Callable[[Any, Any, Any], Mapping[str, Any]]
    schema: Schema
    load: str = "1000/s"
    seed: int = 0
    limit: int | None = None
    block: int = 1000

    def __init__(
        self,
        make: Callable[[Any, Any, Any], Mapping[str, Any]],
        schema: Any,
        load: str = "1000/s",
        seed: int = 0,
        limit: int | None = None,
        block: int = 1000,
    ) -> None:
        if block < 1:
            raise InvalidInput("a generator's block must hold at least one record")
        object.__setattr__(self, "make", make)
        object.__setattr__(self, "schema", Schema.of(schema))
        object.__setattr__(self, "load", load)
        object.__setattr__(self, "seed", seed)
        object.__setattr__(self, "limit", limit)
        object.__setattr__(self, "block", block)


@dataclass(frozen=True)
class Files:
    """New files of a directory, as Spark's file source reads them."""

    kind: ClassVar[str] = "files"
    path: str
    format: str
    schema: Schema
    options: Mapping[str, str] = field(default_factory=dict)

    def __init__(self, path: str, schema: Any, format: str = "json", **options: Any) -> None:
        object.__setattr__(self, "path", str(path))
        object.__setattr__(self, "format", format)
        object.__setattr__(self, "schema", Schema.of(schema))
        object.__setattr__(self, "options", _texts(options))


@dataclass(frozen=True)
class Spark:
    """Any format of Spark's `readStream` or `writeStream`; options are passed on unchanged."""

    kind: ClassVar[str] = "spark"
    format: str
    options: Mapping[str, str] = field(default_factory=dict)
    schema: Schema | None = None

    def __init__(
        self,
        format: str,
        options: Mapping[str, Any] | None = None,
        *,
        schema: Any = None,
        **more: Any,
    ) -> None:
        object.__setattr__(self, "format", format)
        object.__setattr__(self, "options", _texts({**(options or {}), **more}))
        object.__setattr__(self, "schema", None if schema is None else Schema.of(schema))


@dataclass(frozen=True)
class Kafka:
    """A Kafka topic as source or sink; options are those of Spark's connector."""

    kind: ClassVar[str] = "kafka"
    options: Mapping[str, str] = field(default_factory=dict)
    format: ClassVar[str] = "kafka"
    schema: ClassVar[Schema] = Schema.of(
        "key binary, value binary, topic string, partition int, offset bigint, "
        "timestamp timestamp, timestampType int"
    )

    def __init__(self, options: Mapping[str, Any] | None = None, **more: Any) -> None:
        given = {**(options or {}), **more}
        named = {_kafka_option(name): value for name, value in given.items()}
        object.__setattr__(self, "options", _texts(named))


@dataclass(frozen=True)
class FileSink:
    """Files of one format in one directory, each batch exactly once."""

    kind: ClassVar[str] = "files"
    path: str
    format: str
    options: Mapping[str, str] = field(default_factory=dict)


def Parquet(path: str, **options: Any) -> FileSink:
    """Write Parquet files; a relative path starts where the flow is run."""
    return FileSink(str(path), "parquet", _texts(options))


def Json(path: str, **options: Any) -> FileSink:
    """Write JSON lines."""
    return FileSink(str(path), "json", _texts(options))


def Csv(path: str, **options: Any) -> FileSink:
    """Write CSV files."""
    return FileSink(str(path), "csv", _texts(options))


@dataclass(frozen=True)
class Console:
    """Print each batch."""

    kind: ClassVar[str] = "console"
    rows: int = 20
    truncate: bool = True


@dataclass(frozen=True)
class Memory:
    """Keep the rows in the driver, for tests: `engine.rows("sink")` returns them."""

    kind: ClassVar[str] = "memory"


@dataclass(frozen=True)
class ForeachBatch:
    """Hand every batch to `function(dataframe, batch_id)`.

    A batch may come twice after a crash, with the same id and the same rows.
    """

    kind: ClassVar[str] = "foreach-batch"
    function: Callable[[Any, int], None]


@dataclass(frozen=True)
class Discard:
    """Compute everything and keep nothing."""

    kind: ClassVar[str] = "discard"


Source = Generator | Files | Kafka | Spark
Sink = FileSink | Console | Memory | ForeachBatch | Discard | Kafka | Spark


def _kafka_option(name: str) -> str:
    """`bootstrap_servers` cannot carry Kafka's dot in a keyword; Spark's names pass unchanged."""
    return "kafka.bootstrap.servers" if name == "bootstrap_servers" else name


def _texts(options: Mapping[str, Any]) -> dict[str, str]:
    return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in options.items()}
