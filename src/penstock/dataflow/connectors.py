"""Sources and sinks as values. Nothing is opened here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from penstock.dataflow.schema import Schema
from penstock.errors import InvalidInput


@dataclass(frozen=True)
class Generator:
    """A source of generated records: the same seed gives the same records.

    `make(rng, index, at)` is called for blocks of records: `index` (int64 array) numbers them
    from 0, `at` (float array) is when each is due in seconds since the start, and `rng` is a NumPy
    generator that depends only on the seed and the block. It returns one array-like per column, by
    name. `load` is the rate, written as on the command line (`penstock run --load`).
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
    """Any format of Spark's `readStream` or `writeStream`, with its options."""

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
    """A Kafka topic as source or sink, with the options of Spark's connector."""

    kind: ClassVar[str] = "kafka"
    options: Mapping[str, str] = field(default_factory=dict)
    format: ClassVar[str] = "kafka"

    def __init__(self, options: Mapping[str, Any] | None = None, **more: Any) -> None:
        given = {**(options or {}), **more}
        named = {_kafka_option(name): value for name, value in given.items()}
        object.__setattr__(self, "options", _texts(named))

    @property
    def schema(self) -> Schema:
        """The columns of records that are read from a topic."""
        asked = {name.lower(): value for name, value in self.options.items()}
        return _RECORD_WITH_HEADERS if asked.get("includeheaders") == "true" else _RECORD


_RECORD = Schema.of(
    "key binary, value binary, topic string, partition int, offset bigint, "
    "timestamp timestamp, timestampType int"
)
_RECORD_WITH_HEADERS = Schema.of(f"{_RECORD.ddl}, headers array<struct<key:string,value:binary>>")


@dataclass(frozen=True)
class FileSink:
    """Files of one format in one directory, each batch exactly once.

    partition_by: columns whose values become directories, as in `channel=web/`.
    """

    kind: ClassVar[str] = "files"
    path: str
    format: str
    options: Mapping[str, str] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()


def Parquet(path: str, **options: Any) -> FileSink:
    """Write Parquet files; a relative path starts in the directory where the flow is run.

    Options are those of Spark's writer, plus `partitionBy`: a column or a list of columns.
    """
    return _file_sink(path, "parquet", options)


def Json(path: str, **options: Any) -> FileSink:
    """Write JSON lines; options as for `Parquet`."""
    return _file_sink(path, "json", options)


def Csv(path: str, **options: Any) -> FileSink:
    """Write CSV files; options as for `Parquet`."""
    return _file_sink(path, "csv", options)


@dataclass(frozen=True)
class Console:
    """Print each batch."""

    kind: ClassVar[str] = "console"
    rows: int = 20
    truncate: bool = True


@dataclass(frozen=True)
class Memory:
    """Keep the rows in the driver, for tests; `engine.rows("sink")` returns them."""

    kind: ClassVar[str] = "memory"


@dataclass(frozen=True)
class ForeachBatch:
    """Call `function(dataframe, batch_id)` for every batch.

    After a crash a batch may come again, with the same id and the same rows.
    """

    kind: ClassVar[str] = "foreach-batch"
    function: Callable[[Any, int], None]


@dataclass(frozen=True)
class Discard:
    """Compute all rows and throw them away."""

    kind: ClassVar[str] = "discard"


Source = Generator | Files | Kafka | Spark
Sink = FileSink | Console | Memory | ForeachBatch | Discard | Kafka | Spark


def _file_sink(path: str, format: str, options: Mapping[str, Any]) -> FileSink:
    columns = [n for n in options if n.lower() in ("partitionby", "partition_by")]
    if len(columns) > 1:
        raise InvalidInput(f"partitionBy is given twice, as {' and as '.join(columns)}")
    rest = _texts({name: value for name, value in options.items() if name not in columns})
    partition_by = _columns(options[columns[0]]) if columns else ()
    return FileSink(str(path), format, rest, partition_by)


def _columns(given: Any) -> tuple[str, ...]:
    columns = (given,) if isinstance(given, str) else given
    texts = isinstance(columns, tuple | list) and all(isinstance(c, str) for c in columns)
    if not texts or not columns:
        raise InvalidInput(f"partitionBy is a column name or a list of names, found {given!r}")
    return tuple(columns)


def _kafka_option(name: str) -> str:
    """Return Spark's name of an option; `bootstrap_servers` stands for a name with dots."""
    return "kafka.bootstrap.servers" if name == "bootstrap_servers" else name


def _texts(options: Mapping[str, Any]) -> dict[str, str]:
    return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in options.items()}
