"""History older than the local disk: Parquet files in an object store that anything opens."""
