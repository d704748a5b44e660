"""`tidelog stream backup` and `restore`: a stream into a directory, and back."""

from pathlib import Path
from typing import Any

import click

from tidelog.cli import output
from tidelog.cli.jetstream import SIZE, json_option, opened, progress_bar, read_config, size_text
from tidelog.cli.target import connection_options
from tidelog.client.jetstream.backup import CHUNK_SIZE, DATA_NAME, back_up, read_backup
from tidelog.client.jetstream.backup import restore as restore_stream

progress_option = click.option("--progress/--no-progress", default=True, help="Show how far it is.")


@click.command()
@click.argument("name", metavar="STREAM")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@progress_option
@click.option("--check", is_flag=True, help="Let the server look for damage before.")
@click.option("--consumers/--no-consumers", default=True, help="With the consumers.")
@click.option("--chunk-size", default=CHUNK_SIZE, type=SIZE, help="Bytes that are sent at a time.")
@json_option
@connection_options
def backup(
    name: str,
    directory: Path,
    progress: bool,
    check: bool,
    consumers: bool,
    chunk_size: int,
    as_json: bool,
) -> None:
    """Write a stream into DIRECTORY, from where `restore` makes it again."""
    with opened() as js:
        size = js.stream_info(name).state.bytes
        with progress_bar(f"backup of {name}", size, shown=progress) as told:
            answer = back_up(
                js, name, directory, consumers=consumers, check=check, chunk_size=chunk_size, progress=told
            )
    written = (directory / DATA_NAME).stat().st_size
    if as_json:
        output.write_json({"state": answer.document["state"], "directory": str(directory), "size": written})
    else:
        click.echo(f"{name}: {answer.state.messages:,} messages in {directory}, {size_text(written)}")


@click.command()
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@progress_option
@click.option(
    "--config", "config_path", type=click.Path(dir_okay=False), help="Another configuration, as JSON."
)
@click.option("--replicas", type=int, help="So many copies, in a cluster.")
@json_option
@connection_options
def restore(
    directory: Path, progress: bool, config_path: str | None, replicas: int | None, as_json: bool
) -> None:
    """Make the stream again that `backup` wrote into DIRECTORY."""
    config: dict[str, Any] = read_config(config_path) if config_path else read_backup(directory)["config"]
    if replicas:
        config["num_replicas"] = replicas
    size = (directory / DATA_NAME).stat().st_size if (directory / DATA_NAME).exists() else None
    with opened() as js, progress_bar(f"restore of {config['name']}", size, shown=progress) as told:
        made = restore_stream(js, directory, config=config, progress=told)
    if as_json:
        output.write_json(made.document)
    else:
        click.echo(f"{made.name}: {made.state.messages:,} messages restored")
