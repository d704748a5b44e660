"""The API desk: requests on `$JS.API.`, what is answered, and what is told to whoever listens.

`desk` receives and dispatches; each group of requests has a module with a table of its own (`ENTRIES`): `account`,
`stream`, `message`. To answer a new kind of request, write a handler, put it into an `ENTRIES`, and add that to
`table.ENTRIES`.
"""
