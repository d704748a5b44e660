"""Where Spark finds Tidelog: it imports every module named `pyspark_*` and takes its `DefaultSource`."""

from tidelog.spark.source import TidelogDataSource as DefaultSource

__all__ = ["DefaultSource"]
