"""Penstock: elastic stream processing on Apache Spark.

Write a dataflow with no parallelism in it, say what latency you want, and run it.
"""

from penstock.app import profile, run
from penstock.control.guard import Guard
from penstock.control.quiet_periods import Quiet
from penstock.control.summary import Summary
from penstock.dataflow.connectors import (
    Console,
    Csv,
    Discard,
    Files,
    ForeachBatch,
    Generator,
    Json,
    Kafka,
    Memory,
    Parquet,
    Spark,
)
from penstock.dataflow.flow import Dataflow, KeyedStream, Stream
from penstock.dataflow.generator import each
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Estimate
from penstock.errors import (
    FlowFailed,
    InvalidDataflow,
    InvalidInput,
    InvalidPlan,
    PenstockError,
    Refused,
    RunDirectoryError,
)
from penstock.plan.limits import Limits
from penstock.plan.plan import Pipeline, Plan
from penstock.predict.profiling import Profiled

__all__ = [
    "Console",
    "Csv",
    "Dataflow",
    "Discard",
    "Estimate",
    "Files",
    "FlowFailed",
    "ForeachBatch",
    "Generator",
    "Graph",
    "Guard",
    "InvalidDataflow",
    "InvalidInput",
    "InvalidPlan",
    "Json",
    "Kafka",
    "KeyedStream",
    "Limits",
    "Memory",
    "Parquet",
    "PenstockError",
    "Pipeline",
    "Plan",
    "Profiled",
    "Quiet",
    "Refused",
    "RunDirectoryError",
    "Spark",
    "Stream",
    "Summary",
    "each",
    "profile",
    "run",
]
