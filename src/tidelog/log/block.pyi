# Nothing for Python: posting lists are tried through tidelog.log.posting.
