"""Sockets, TLS, websocket, HTTP, signals and configuration: the only room that knows asyncio."""
