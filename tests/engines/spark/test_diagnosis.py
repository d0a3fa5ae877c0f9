"""The lines of Spark's errors that say why."""

from __future__ import annotations

import pytest

from penstock.engines.spark.queries.diagnosis import reason

DEEP = """org.apache.spark.SparkException:
Error from python worker:
  Traceback (most recent call last):
    File "pyspark/daemon.py", line 129, in manager
      listen_sock.bind(socket_path)
  OSError: AF_UNIX path too long
PYTHONPATH was:
  pyspark.zip
java.lang.NullPointerException: Cannot invoke "Object.toString()" because "x" is null
"""


@pytest.mark.parametrize("text", [DEEP, "java.net.SocketException: Unix domain path too long"])
def test_a_socket_in_a_directory_that_is_too_deep_is_said_with_what_to_do(text: str) -> None:
    said = reason(text)
    assert "longer than a socket may have" in said
    assert "leave spark.python.unix.domain.socket.enabled out" in said


def test_the_last_cause_is_told() -> None:
    text = "org.apache.spark.SparkException: Job aborted\nCaused by: ValueError: bad row\n  at x"
    assert reason(text) == "ValueError: bad row"
