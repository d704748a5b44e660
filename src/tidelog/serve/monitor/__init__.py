"""The monitoring documents, one module each; `desk` finds the document for a request.

Names, order and left-out fields are those of nats-server, because dashboards, clients and people read them.
Nothing here is imported before the client port listens.
"""
