"""Pipelines that come with Tidelog: a stream into a table, a table into a stream, and what is in a stream.

archive   a stream into a partitioned table, exactly once across restarts
replay    a table, or a range of a history, into a stream
report    what a stream has, by subject and by minute, as a table and as a plot
project   a project of Spark's Declarative Pipelines, wired to a server
compact   small files of a history into large ones; no Spark is needed for it (`tidelog.cold.compaction`)
status    how far queries are, read from their checkpoints
"""
