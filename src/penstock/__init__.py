"""Penstock: elastic stream processing on Apache Spark.

Write a dataflow with no parallelism in it, say what latency you want, and run it.

This module is the public API, together with `penstock.testing`; see docs/stability.md. Its names
are loaded when they are first used, so that `import penstock` costs nothing.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.app import profile, run
    from penstock.control.blackout_periods import Quiet
    from penstock.control.guard import Guard
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
    from penstock.engines.port import Engine
    from penstock.engines.simulator.engine import SimulatorEngine
    from penstock.engines.spark.engine import SparkEngine
    from penstock.errors import (
        FlowFailed,
        InvalidDataflow,
        InvalidInput,
        InvalidPlan,
        PenstockError,
        Refused,
        RunDirectoryError,
    )
    from penstock.metrics.snapshot import (
        ChannelMetrics,
        ExecutorMetrics,
        InstanceMetrics,
        LatencyMetrics,
        OperatorMetrics,
        PipelineMetrics,
        Snapshot,
    )
    from penstock.plan.change import Change
    from penstock.plan.decision import Decision
    from penstock.plan.limits import Limits
    from penstock.plan.plan import Pipeline, Plan
    from penstock.plan.transition import Transition
    from penstock.policies.base.policy import Context, Policy
    from penstock.predict.profiling import Profiled
    from penstock.store.mailbox import ask

logging.getLogger(__name__).addHandler(logging.NullHandler())  # silent unless penstock.log is used

__version__ = "0.1.0"

__all__ = [
    "Change",
    "ChannelMetrics",
    "Console",
    "Context",
    "Csv",
    "Dataflow",
    "Decision",
    "Discard",
    "Engine",
    "Estimate",
    "ExecutorMetrics",
    "Files",
    "FlowFailed",
    "ForeachBatch",
    "Generator",
    "Graph",
    "Guard",
    "InstanceMetrics",
    "InvalidDataflow",
    "InvalidInput",
    "InvalidPlan",
    "Json",
    "Kafka",
    "KeyedStream",
    "LatencyMetrics",
    "Limits",
    "Memory",
    "OperatorMetrics",
    "Parquet",
    "PenstockError",
    "Pipeline",
    "PipelineMetrics",
    "Plan",
    "Policy",
    "Profiled",
    "Quiet",
    "Refused",
    "RunDirectoryError",
    "SimulatorEngine",
    "Snapshot",
    "Spark",
    "SparkEngine",
    "Stream",
    "Summary",
    "Transition",
    "__version__",
    "ask",
    "each",
    "profile",
    "run",
]

_MODULES = {
    "app": "profile run",
    "control.guard": "Guard",
    "control.blackout_periods": "Quiet",
    "control.summary": "Summary",
    "dataflow.connectors": (
        "Console Csv Discard Files ForeachBatch Generator Json Kafka Memory Parquet Spark"
    ),
    "dataflow.flow": "Dataflow KeyedStream Stream",
    "dataflow.generator": "each",
    "dataflow.graph": "Graph",
    "dataflow.operators": "Estimate",
    "engines.port": "Engine",
    "engines.simulator.engine": "SimulatorEngine",
    "engines.spark.engine": "SparkEngine",
    "errors": (
        "FlowFailed InvalidDataflow InvalidInput InvalidPlan PenstockError Refused "
        "RunDirectoryError"
    ),
    "metrics.snapshot": (
        "ChannelMetrics ExecutorMetrics InstanceMetrics LatencyMetrics OperatorMetrics "
        "PipelineMetrics Snapshot"
    ),
    "plan.change": "Change",
    "plan.decision": "Decision",
    "plan.limits": "Limits",
    "plan.plan": "Pipeline Plan",
    "plan.transition": "Transition",
    "policies.base.policy": "Context Policy",
    "predict.profiling": "Profiled",
    "store.mailbox": "ask",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'penstock' has no attribute '{name}'")
    value = getattr(import_module(f"penstock.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
