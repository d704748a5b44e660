"""Spark: streams as a source and a sink of PySpark, a session to begin with, and pipelines.

    spark = tidelog.spark.session()
    spark.read.format("tidelog").option("stream", "ORDERS").load().show()

Spark finds the data source by itself, through the package `pyspark_tidelog`. This room is the only one that imports
pyspark and pyarrow; `pip install 'tidelog[spark]'` brings them.

    option    what users say, checked             offset    what stands in a checkpoint
    row       one schema for all doors            link      connections, and patience with them
    survey    states of streams, positions        plan      ranges into tasks
    door      how messages come out of a server   task      reading one range, with nothing lost unnoticed
    source    what Spark sees: batch and stream   sink, ... the other way
"""

from tidelog.spark.local import session

__all__ = ["session"]
