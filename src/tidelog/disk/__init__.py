"""The only place that opens the store's files. What a log may ask of a disk is in `disk.disk`."""
