"""What Spark sees under the name `tidelog`: readers and writers, made from options.

Spark makes this object wherever it needs one, in the driver and beside it; it holds the options and nothing else. Each
of its short-lived processes imports this module, so what only one of them needs is imported there.
"""

from collections.abc import MutableMapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from tidelog.spark.option import OptionError, include_headers, kafka_rows, read_options, write_options
from tidelog.spark.row import RowFormat


class TidelogDataSource(DataSource):
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        return "tidelog"

    def schema(self) -> StructType:
        return RowFormat(kafka_rows(self.options), include_headers(self.options)).spark_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        from tidelog.spark.batch import BatchReader

        self._check(schema)
        return BatchReader(read_options(self.options, streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from tidelog.spark.micro_batch import MicroBatchReader

        self._check(schema)
        return MicroBatchReader(read_options(self.options, streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from tidelog.spark.sink import BatchWriter

        if overwrite:
            raise OptionError("mode", "a stream can only be appended to: use mode('append')")
        return BatchWriter(schema, write_options(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from tidelog.spark.sink import StreamWriter

        if overwrite:
            raise OptionError("outputMode", "a stream can only be appended to: use append")
        return StreamWriter(schema, write_options(self.options))

    def _check(self, schema: StructType) -> None:
        ours = self.schema()
        if schema.simpleString() != ours.simpleString():
            raise OptionError(
                "rowFormat",
                f"rows are {ours.simpleString()}; give no schema of your own, and select from these columns",
            )
