"""`tidelog context`: the contexts that the `nats` command keeps, too."""

import re
from dataclasses import replace
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from tidelog.base.errors import ClientError
from tidelog.cli import output
from tidelog.cli.target import connection_options, given_flags
from tidelog.client.context import Context, ContextStore

SECRETS = ("password", "token", "user_jwt")
MASK = "********"
# What stands in front of a host in a URL: a user and a password, or a token.
IDENTITY = re.compile(r"(?:([^/,:@\s]*):)?[^/,@\s]+@")


@click.group()
def context() -> None:
    """Manage named ways to reach servers, shared with the `nats` command."""


@context.command(name="ls")
@click.option("--json", "-j", "as_json", is_flag=True, help="A JSON document.")
@click.option("--names", is_flag=True, help="Names only.")
def list_contexts(as_json: bool, names: bool) -> None:
    """List the contexts; a star marks the selected one."""
    store = ContextStore()
    selected = store.selected()
    if names:
        for name in store.names():
            click.echo(name)
        return
    found: list[dict[str, Any]] = []
    for name in store.names():
        try:
            known = store.load(name)
        except ClientError as error:
            output.remark(str(error))
            continue
        found.append(_document(known) | {"selected": name == selected})
    if as_json:
        output.write_json(found)
        return
    table = Table("Name", "Description", "URL")
    for entry in found:
        table.add_row(entry["name"] + ("*" if entry["selected"] else ""), entry["description"], entry["url"])
    Console().print(table if found else "No known contexts")


@context.command()
@click.argument("name", required=False)
@click.option("--json", "-j", "as_json", is_flag=True, help="A JSON document.")
@click.option("--connect", is_flag=True, help="Try to connect with it.")
def show(name: str | None, as_json: bool, connect: bool) -> None:
    """Show the context NAME, or the selected one. Secrets are not shown."""
    store = ContextStore()
    name = name or store.selected()
    if not name:
        raise click.UsageError("NAME is missing, and no context is selected.")
    known = store.load(name)
    if connect:
        _try(store, known)
    document = _document(known) | {"path": str(store.path(name))}
    if as_json:
        output.write_json(document)
        return
    table = Table(title=f"Context {name}", show_header=False)
    for key, value in document.items():
        if value:
            table.add_row(key, str(value))
    Console().print(table)


@context.command(name="add")
@click.argument("name")
@click.option("--description", help="What it is for.")
@click.option("--nsc", help="A user in the store of `nsc`: nsc://operator/account/user.")
@click.option("--select", "selected", is_flag=True, help="Select it, too.")
@connection_options
def add(name: str, description: str | None, nsc: str | None, selected: bool) -> None:
    """Create or change the context NAME from the connection flags."""
    store = ContextStore()
    flags = given_flags()
    basis = str(flags.get("context_name", ""))
    if name in store.names():
        known = store.load(name)
    else:
        known = replace(store.load(basis), name=name) if basis else Context(name=name)
    identity = {"user": flags.get("user"), "password": flags.get("password")}
    if identity["user"] and not identity["password"]:
        identity = {"token": flags["user"]}
    changes = identity | {
        "url": flags.get("server"),
        "description": description,
        "nsc": nsc,
        "creds": flags.get("creds"),
        "nkey": flags.get("nkey"),
        "cert": flags.get("tlscert"),
        "key": flags.get("tlskey"),
        "ca": flags.get("tlsca"),
        "tls_first": flags.get("tlsfirst"),
        "inbox_prefix": flags.get("inbox_prefix"),
    }
    path = store.save(replace(known, **{key: value for key, value in changes.items() if value}))
    if selected:
        store.select(name)
    click.echo(path)


@context.command()
@click.argument("name", required=False)
@click.option("--previous", is_flag=True, help="Go back to the one selected before.")
@click.option("--none", "nothing", is_flag=True, help="Select none.")
def select(name: str | None, previous: bool, nothing: bool) -> None:
    """Select NAME as the context to use by default."""
    store = ContextStore()
    if nothing:
        store.unselect()
        return
    name = store.previous() if previous else name
    if not name:
        raise click.UsageError("NAME is missing.")
    store.select(name)


@context.command(name="rm")
@click.argument("name")
@click.option("--force", "-f", is_flag=True, help="Do not ask.")
def remove(name: str, force: bool) -> None:
    """Remove the context NAME."""
    store = ContextStore()
    if not force:
        click.confirm(f'Really remove context "{name}"?', abort=True)
    store.remove(name)


def _document(known: Context) -> dict[str, Any]:
    document = {"name": known.name, **known.document()}
    for key in SECRETS:
        if document.get(key):
            document[key] = MASK
    document["url"] = IDENTITY.sub(
        lambda found: f"{found[1]}:{MASK}@" if found[1] else f"{MASK}@", document["url"]
    )
    return document


def _try(store: ContextStore, known: Context) -> None:
    from tidelog.cli.target import resolve

    with resolve({"context_name": known.name}, {}, store).connect() as connection:
        output.remark(f"Connected to {connection.url}")
