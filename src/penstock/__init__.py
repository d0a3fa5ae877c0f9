"""Penstock: elastic stream processing on Apache Spark.

Write a dataflow with no parallelism in it, say what latency you want, and run it.
"""

from penstock.control.guard import Guard
from penstock.control.profiling import Profiled, profile
from penstock.control.quiet import Quiet
from penstock.control.run import run
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
from penstock.dataflow.generation import each
from penstock.dataflow.graph import Graph
from penstock.dataflow.operator import Estimate
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
from penstock.report.summary import Summary

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
