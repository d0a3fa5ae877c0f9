"""Torture: a flow that is changed and killed at random instants must end exact all the same.

    python -m tests.torture SEED ...

A life is one process. It is given a random script of changes, and something of it is killed
around the moment of one of them: the driver with everything, its JVM, a Python worker, or, on a
cluster, an executor. The next life goes on in the same run directory. The last one is left alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from penstock.store.history import turn_times
from tests.processes import command, of_session

ROOT = Path(__file__).parent.parent
LIMIT, RATE = 4800, 600
FLOW = f"""
import shop
flow = shop.build(out="out", load="{RATE}/s", limit={LIMIT})
"""
EDGES = (
    ("clicks", "sales"),
    ("orders", "sales"),
    ("sales", "priced"),
    ("priced", "revenue"),
    ("revenue", "flat"),
    ("flat", "minutes"),
    ("priced", "spree"),
    ("spree", "sprees"),
    ("priced", "dear"),
    ("dear", "dear-ones"),
)
NAMES = sorted({name for edge in EDGES for name in edge})
STATEFUL = ("sales", "revenue", "spree")
PATIENCE = 240.0
CHANGES = (0.0, 1.0, 2.5, 5.0)
"""Seconds of a life at which changes come; a kill comes within two seconds of one of them."""


@dataclass(frozen=True)
class Life:
    """What happens to one process: its changes, and what is killed how long after which."""

    changes: tuple[str, ...]
    victim: str
    at: float

    @property
    def words(self) -> list[str]:
        return [word for change in self.changes for word in ("--change", change)]


def random_request(choose: random.Random, cluster: bool) -> str:
    """Anything that can be asked; much of it is refused, which must do no harm either."""
    name = choose.choice(NAMES)
    kinds = ["scale", "scale", "ceiling", "split", "split", "fuse", "cadence", "admission"]
    match choose.choice(kinds + ["executors"] * 3 * cluster):
        case "scale":
            return f"{name}={choose.randint(1, 4)}"
        case "ceiling":
            return f"{choose.choice(STATEFUL)}.ceiling={choose.randint(2, 6)}"
        case "split":
            return f"split {name}"
        case "fuse":
            return "fuse {} {}".format(*choose.choice(EDGES))
        case "cadence":
            return f"{name}.cadence={choose.choice([0, 200, 700])}ms"
        case "admission":
            return f"{name}.admission={choose.choice(['100', '1000', 'unlimited'])}"
        case _:
            return f"executors={choose.randint(1, 2)}"


def random_lives(choose: random.Random, cluster: bool, kills: int) -> list[Life]:
    victims = ["driver", "driver", "java", "worker"] + ["executor"] * 4 * cluster
    lives = []
    for _ in range(kills):
        script = [f"{at}s:{random_request(choose, cluster)}" for at in CHANGES]
        at = choose.choice(CHANGES) + choose.uniform(0, 2)
        lives.append(Life(tuple(script), choose.choice(victims), at))
    return lives


class Process:
    """The command in a process group of its own, so that all of it can be killed."""

    def __init__(self, folder: Path, life: Life | None, master: str | None) -> None:
        words = ["run", "mine.py:flow", "--run-dir", "here", "--json"]
        words += ["--master", master] if master else []
        words += life.words if life else []
        self._log = (folder / "log.txt").open("a")
        self._log.write(f"== {words}\n")
        self._log.flush()
        self._run_dir = folder / "here"
        self._before = self._snapshots()
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "penstock", *words],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )

    def _snapshots(self) -> int:
        return max((one.turn for one in turn_times(self._run_dir)), default=0)

    def wait_until_running(self) -> None:
        end = time.monotonic() + PATIENCE
        while self._snapshots() == self._before and self.popen.poll() is None:
            assert time.monotonic() < end, "the flow does not start"
            time.sleep(0.02)

    def kill(self, victim: str) -> bool:
        """Kill; returns whether the whole life is over by it."""
        if victim == "driver":
            os.killpg(self.popen.pid, signal.SIGKILL)
            return True
        pattern = {
            "java": "org.apache.spark.deploy.SparkSubmit",
            "executor": "CoarseGrainedExecutorBackend",
            "worker": "pyspark.daemon",
        }[victim]
        found = [pid for pid in of_session(self.popen.pid) if pattern in command(pid)]
        if found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(found[-1], signal.SIGKILL)
        return victim == "java"

    def end(self) -> None:
        """Leave nothing behind, not even what a dead driver started."""
        for pid in of_session(self.popen.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.popen.communicate()
        self._log.close()


def torture(
    seed: int, folder: Path, cluster: bool | None = None, kills: int = 2
) -> dict[str, object]:
    """One story; returns the summary of the last life, or raises what is wrong."""
    choose = random.Random(seed)
    on_cluster = choose.random() < 0.25 if cluster is None else cluster
    master = "local-cluster[2,2,1024]" if on_cluster else None
    (folder / "mine.py").write_text(FLOW)
    (folder / "shop.py").write_text((ROOT / "examples" / "shop.py").read_text())
    for life in random_lives(choose, on_cluster, kills):
        process = Process(folder, life, master)
        try:
            process.wait_until_running()
            time.sleep(life.at)  # the instant is the experiment: nothing to wait for
            if not process.kill(life.victim):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.popen.wait(timeout=6)  # let it mend itself for a while
        finally:
            process.end()
    process = Process(folder, None, master)
    try:
        out, _ = process.popen.communicate(timeout=PATIENCE)
    finally:
        process.end()
    assert process.popen.returncode == 0, (folder / "log.txt").read_text()[-3000:]
    summary: dict[str, object] = json.loads(out)
    total = LIMIT + LIMIT // 4
    assert summary["exact"] is True, f"seed {seed}: {summary}"
    assert summary["rows_ingested"] == total, f"seed {seed}: {summary}"
    checked = json.loads((folder / "here" / "exactness.json").read_text())
    assert all(sink["expected_rows"] > 0 for sink in checked["sinks"]), f"seed {seed}: {checked}"
    return summary


def main(words: list[str]) -> int:
    failed = 0
    for seed in (int(word) for word in words):
        with tempfile.TemporaryDirectory(prefix=f"penstock-torture-{seed}-") as folder:
            began = time.monotonic()
            try:
                torture(seed, Path(folder))
                outcome = "exact"
            except AssertionError as error:
                failed += 1
                outcome = f"FAILED: {error}"
            lives = [line[:400] for line in (Path(folder) / "log.txt").read_text().splitlines()]
            print(f"seed {seed}: {outcome}, {time.monotonic() - began:.0f} s", flush=True)
            for line in lives:
                if failed or line.startswith("==") or "refused" in line or " -> " in line:
                    print(f"    {line}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
