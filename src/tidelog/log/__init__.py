"""Append-only truth: records in segments, an index over all subjects, group commit, and readers in both directions."""
