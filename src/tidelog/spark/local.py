"""A Spark session to begin with: on this machine by default, quiet, and sure to find Java and Python.

    spark = tidelog.spark.session()
    spark = tidelog.spark.session("report", master="spark://host:7077", config={"spark.sql.shuffle.partitions": "8"})

What it promises: Java is found, or it is said how to get it; workers run this very Python; nothing listens beyond
loopback while the master is local; logs say warnings and errors only. A session that is running already is returned
as it is.
"""

import os
import sys
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidelog.base.errors import TidelogError
from tidelog.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How long Spark's processes wait for each other to connect; its own 15 s are too few for a machine that does much else.
CONNECT_S = 60
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# For as long as Spark has not been told a level; without it, it says in some lines which it begins with.
LOGGING = """\
rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
logger.python.name = org.apache.spark.api.python.PythonGatewayServer
logger.python.level = {level}
appender.stderr.layout.pattern = %d{{yy/MM/dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""
# Small data is the rule on one machine; Spark's 200 are for clusters.
LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.python.authenticate.socketTimeout": f"{CONNECT_S}s",
    JAVA_OPTIONS: "-Djava.net.preferIPv4Stack=true",
}
ALWAYS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # What everybody else reads; Spark's own choice is older than Parquet's times.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


def session(
    name: str = "tidelog",
    *,
    master: str = "local[*]",
    config: Mapping[str, str] | None = None,
    log: str = "ERROR",
) -> "SparkSession":
    """A session. Raises JavaMissing, or TidelogError when pyspark is not installed."""
    prepare(local=master.startswith("local"))
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise TidelogError(f"Spark is not installed ({error}); pip install 'tidelog[spark]'") from error
    builder = SparkSession.builder.appName(name).master(master)
    settings = ALWAYS | (LOCAL if master.startswith("local") else {}) | dict(config or {})
    for key, value in settings.items():
        builder = builder.config(key, value)
    with tempfile.NamedTemporaryFile("w", prefix="tidelog-", suffix=".properties") as file:
        file.write(LOGGING.format(level=log))
        file.flush()
        if JAVA_OPTIONS not in (config or {}):
            options = f"{settings.get(JAVA_OPTIONS, '')} -Dlog4j2.configurationFile=file:{file.name}"
            builder = builder.config(JAVA_OPTIONS, options.strip())
        made = builder.getOrCreate()
    made.sparkContext.setLogLevel(log)
    return made


def prepare(*, local: bool) -> None:
    """The environment of whatever starts Spark in this process, or below it."""
    os.environ["JAVA_HOME"] = str(find_java())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("SPARK_AUTH_SOCKET_TIMEOUT", str(CONNECT_S))
