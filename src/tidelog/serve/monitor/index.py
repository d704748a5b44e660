"""`/`: a page with links to the documents."""

from html import escape

LINKS = (
    ("varz", "General"),
    ("jsz", "JetStream"),
    ("connz", "Connections"),
    ("accountz", "Accounts"),
    ("accstatz", "Account Stats"),
    ("subsz", "Subscriptions"),
    ("routez", "Routes"),
    ("leafz", "LeafNodes"),
    ("gatewayz", "Gateways"),
    ("raftz", "Raft Groups"),
    ("healthz", "Health Probe"),
    ("metrics", "Metrics"),
    ("debug/vars", "Expvar"),
)

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{name}</title>
<style>
body {{ font-family: system-ui, sans-serif; margin: 2rem; color: #223 }}
a {{ display: block; padding: .25rem 0; color: #246 }}
code {{ color: #777; margin-left: .5rem }}
</style>
</head>
<body>
<h1>{name}</h1>
<p>Tidelog {version}</p>
{links}
</body>
</html>
"""


def index(server_name: str, version: str, base: str) -> bytes:
    links = "\n".join(
        f'<a href="{escape(base)}/{path}">{label}<code>/{path}</code></a>' for path, label in LINKS
    )
    return PAGE.format(name=escape(server_name), version=escape(version), links=links).encode()
