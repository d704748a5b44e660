"""Pipelines that come with Tidelog: a stream into a table, a table into a stream, and what is in a stream.

archive   a stream into a partitioned table, exactly once across restarts
replay    a table into a stream
report    what a stream has, by subject and by minute, as a table and as a plot
project   a project of Spark's Declarative Pipelines, wired to a server
status    how far queries are, read from their checkpoints
"""
