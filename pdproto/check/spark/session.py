"""The session with Spark: starting it, and jobs whose loss is one line and never waits for ever."""

import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from time import monotonic
from typing import Any, Final, TypeVar

import pdproto
from pdproto.check.engine import StoppedError
from pdproto.check.opinions.opinion import FailedError, NotInstalledError
from pdproto.check.spark import tasks

Answer = TypeVar("Answer")

ATTEMPTS: Final = 4  # of a task, as Spark does on clusters; in local mode it would try once
REACH_S: Final = 10.0  # for a master to answer
EMPTY_S: Final = 60.0  # without any executor, after which a cluster counts as lost
LOOK_S: Final = 0.5  # between two looks at the executors
NEEDED: Final = ("pyspark", "pyarrow", "pandas")
SETTINGS: Final = {
    # The number of a bucket is a part of each id, so no partition may be merged with another.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",  # no side of a level's join fits in one machine
    "spark.sql.hive.manageFilesourcePartitions": "false",  # the folders are the only catalogue
    "spark.sql.sources.bucketing.enabled": "true",
    "spark.sql.files.ignoreMissingFiles": "false",  # a lost file is an error, and not fewer states
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(1 << 17),
}


class Session:
    """A Spark session, whose jobs end with an answer or with StoppedError."""

    def __init__(self, spark: Any) -> None:
        self.spark: Final = spark
        self.context: Final = spark.sparkContext
        master = str(self.context.master)
        self.local: Final = master.startswith("local")
        self._alone: Final = self.local and not master.startswith("local-cluster")

    def run(self, job: Callable[[], Answer]) -> Answer:
        """The answer of a job. Raises StoppedError if Spark fails, or has no executor for long."""
        answers: list[Answer] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                answers.append(job())
            except BaseException as error:  # raised again below
                errors.append(error)

        thread = import_module("pyspark").InheritableThread(target=work, daemon=True)
        thread.start()
        seen = monotonic()
        while thread.is_alive():
            thread.join(LOOK_S)
            if self._alone or self._executors():
                seen = monotonic()
            elif monotonic() - seen > EMPTY_S:
                self.context.cancelAllJobs()
                raise StoppedError(f"Spark at {self.context.master} has had no executor for "
                                   f"{EMPTY_S:.0f} s")
        if errors:
            raise _told(errors[0]) from errors[0]
        return answers[0]

    def _executors(self) -> int:
        """The executors that are alive; the driver counts as one of those that Spark names."""
        try:
            return len(self.context._jsc.sc().statusTracker().getExecutorInfos()) - 1
        except Exception:  # Spark itself is gone: the job says so
            return 0


def _told(error: BaseException) -> BaseException:
    """The error of a job as StoppedError; other errors of ours as they are."""
    kinds = (import_module("pyspark.errors").PySparkException,
             import_module("py4j.protocol").Py4JError, ConnectionError)
    if isinstance(error, MemoryError | KeyboardInterrupt) or not isinstance(error, kinds):
        return error
    return StoppedError(f"Spark lost a part of the level: {reason(str(error))}")


def reason(text: str) -> str:
    """The line of a Spark error that names the cause."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    named = [line for line in lines if re.match(r"(\S+: )?[\w.]+(Exception|Error)\b.*: ", line)]
    for known in ("No space left on device", "does not exist", "Python worker exited"):
        for line in lines:
            if known in line and not line.startswith("at "):
                return _cut(line)
    found = (causes or named or lines or ["no reason was given"])[-1]
    return _cut(found)


def _cut(line: str) -> str:
    return line.removeprefix("Caused by: ").lstrip(": ")[:300]


_sessions: Final[dict[str | None, "Session"]] = {}  # by master


def session(master: str | None, workers: int) -> Session:
    """The session of this process. master: Spark's, or None for the one of Spark's own settings.

    Those are `spark-defaults.conf`, PYSPARK_SUBMIT_ARGS and MASTER. A local master gets `workers`
    threads unless it names a number; it keeps those of the first call, because a process has one
    context of Spark. Raises NotInstalledError without PySpark or Java, and FailedError if there is
    no cluster, or its pdproto differs.
    """
    if master not in _sessions:
        _sessions[master] = _new_session(master, workers)
    return _sessions[master]


def _new_session(master: str | None, workers: int) -> Session:
    _installed()
    if master is not None:
        _reach(master)
    started = Session(_started(master, workers))
    if not started.local:
        _compared(started)
    return started


def _installed() -> None:
    for name in NEEDED:
        if find_spec(name) is None:
            raise NotInstalledError(f"{name} is not installed: pip install 'pdproto[spark]'")
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=f"{home}/bin" if home else None) is None:
        where = f"JAVA_HOME={home} has no java" if home else "java is not installed"
        raise NotInstalledError(f"{where}: apt-get install default-jre-headless")


def _reach(master: str) -> None:
    """Raises FailedError if none of a standalone cluster's masters takes connections.

    Spark itself would ask for a minute, and tell of it in pages.
    """
    scheme, _, rest = master.partition("://")
    if scheme != "spark":
        return
    told = "a master is spark://HOST:PORT"
    for address in rest.split(","):
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            continue
        try:
            socket.create_connection((host, int(port)), timeout=REACH_S).close()
        except (OSError, OverflowError) as error:
            told = str(error)
        else:
            return
    raise FailedError(f"no master answers at {master}: {told}")


def _started(master: str | None, workers: int) -> Any:
    """A session. What the Java process writes goes to a file that is removed at its end."""
    pyspark, gateways = import_module("pyspark"), import_module("pyspark.java_gateway")
    with tempfile.TemporaryFile() as log:
        gateway = gateways.launch_gateway(popen_kwargs={"stderr": log})
        conf = pyspark.SparkConf(_jvm=gateway.jvm).setAppName("pdproto")
        chosen = master or conf.get("spark.master", "local[*]")
        if chosen in ("local", "local[*]"):
            chosen = f"local[{workers},{ATTEMPTS}]"
        conf.setMaster(chosen)
        if chosen.startswith("local"):
            conf.setIfMissing("spark.ui.enabled", "false")
            conf.setIfMissing("spark.driver.host", "127.0.0.1")
            conf.setIfMissing("spark.driver.bindAddress", "127.0.0.1")
        conf.setIfMissing("spark.sql.warehouse.dir", tempfile.gettempdir())
        for name, value in SETTINGS.items():
            conf.set(name, value)
        try:
            context = pyspark.SparkContext(conf=conf, gateway=gateway)
        except Exception as error:
            gateway.shutdown()
            raise FailedError(f"Spark did not start at {chosen}: {reason(str(error))}") from error
    if chosen.startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable
    return import_module("pyspark.sql").SparkSession(context)


def _compared(started: Session) -> None:
    """Raises FailedError unless an executor comes, with our version and the native engine."""
    try:
        ((version, compiled),) = started.run(
            lambda: started.context.parallelize([0], 1).map(tasks.version).collect())
    except StoppedError as error:
        raise FailedError(str(error)) from error
    if (version, compiled) != (pdproto.__version__, True):
        has = f"pdproto {version}" if compiled else "pdproto without the native engine"
        raise FailedError(f"the executors at {started.context.master} have {has}, and this is "
                          f"{pdproto.__version__}: install the same there")
