"""The commands `new world` and `new agent`: a scenario package and an agent to start from."""

from pathlib import Path

import click

from rehearsal_room.authoring.new_agent import write_agent
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.scenarios.catalogue import worlds_folder
from rehearsal_room.scenarios.scaffold.new_world import write_world


@click.command("world")
@click.argument("name")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder in which the package is made (default: REHEARSE_WORLDS of the environment, else "
    "worlds).",
)
@click.option(
    "--mcp",
    metavar="COMMAND",
    help="Make a world of the MCP server that this command starts: its state is found, and a first "
    "task. {scratch} stands for a folder of its own.",
)
@click.option(
    "--from-recording",
    "recording",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Make the tasks of a recording of its sessions (`rehearse new recording`); without --mcp, "
    "its server is the recorded one.",
)
@click.option(
    "--world",
    type=click.Path(path_type=Path, exists=True),
    metavar="FOLDER",
    help="With --from-recording: take the server and the seed of this package.",
)
@click.option(
    "--pause",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="With --from-recording: seconds without a call after which a new task begins (default: "
    "60).",
)
@click.option(
    "--openapi",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Make a world of the REST service that this OpenAPI document (JSON or YAML) describes: a "
    "tool for each operation.",
)
@click.option("--base-url", metavar="URL", help="With --openapi: where the service is.")
@click.option(
    "--serve",
    metavar="COMMAND",
    help="With --openapi: the command that starts the service, with {port}; its state is found.",
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VAR",
    help="With --openapi: header whose value is that of a variable of the environment (may be "
    "repeated).",
)
@click.option(
    "--bearer", metavar="VAR", help="With --openapi: variable of the environment with the token."
)
@click.option(
    "--mcp-env",
    "environment",
    multiple=True,
    metavar="VAR",
    help="Variable of the environment that the server inherits (may be repeated). No call is made "
    "then to find its state, unless --probe asks for it.",
)
@click.option(
    "--var",
    "variables",
    multiple=True,
    metavar="NAME=VALUE",
    help="Variable of the server's environment, for example NOTES_DB={scratch}/notes.db (may be "
    "repeated).",
)
@click.option(
    "--seed",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder with which {scratch} begins, for a server that has to be set up first.",
)
@click.option(
    "--postgres",
    metavar="ADDRESS",
    help="Its state is in PostgreSQL: the server on which each world gets a database of its own, "
    "{postgres} (its URL) or {database} (its name) in the command. Variables of the environment "
    "stand in braces: postgresql://{DB_USER}:{DB_PASSWORD}@localhost/postgres.",
)
@click.option(
    "--dump",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With --postgres: the database begins with this dump, as pg_dump writes it.",
)
@click.option(
    "--probe/--no-probe",
    default=None,
    help="Whether some calls of the server's tools are made to see where it writes.",
)
def new_world_command(
    name: str,
    output: Path | None,
    mcp: str | None,
    recording: Path | None,
    world: Path | None,
    pause: float | None,
    openapi: Path | None,
    base_url: str | None,
    serve: str | None,
    headers: tuple[str, ...],
    bearer: str | None,
    environment: tuple[str, ...],
    variables: tuple[str, ...],
    seed: Path | None,
    postgres: str | None,
    dump: Path | None,
    probe: bool | None,
) -> None:
    """Make a small scenario package that passes the gate, to be changed file by file.

    It has three tables, four tools, three tasks with solutions and verifiers, and near misses; the
    comments in its files lead to the next step. With --mcp, it is a world of an MCP server
    instead (docs/mcp-worlds.md).
    """
    parent = worlds_folder() if output is None else output
    given = dict(one.partition("=")[::2] for one in variables)
    if wrong := next((one for one in variables if not one.partition("=")[1]), None):
        raise SettingsError(f"--var: expected NAME=VALUE, found {wrong!r}")
    if recording is None and (world is not None or pause is not None):
        raise SettingsError("--world and --pause are for --from-recording")
    if dump is not None and postgres is None:
        raise SettingsError("--dump is for --postgres")
    if postgres is not None and (mcp is None or recording is not None or seed is not None):
        raise SettingsError("--postgres is for a world of --mcp, without --seed")
    if openapi is None and (base_url or serve or headers or bearer):
        raise SettingsError("--base-url, --serve, --header and --bearer are for --openapi")
    if mcp is not None or recording is not None or openapi is not None:
        from rehearsal_room.cli.worlds import new_server  # its libraries are an extra

        if seed is not None and (mcp is None or recording is not None):
            raise SettingsError("--seed is for a world of --mcp")
        target = new_server.Target(name, parent, environment, given, seed, probe)
        if recording is not None:
            new_server.from_recording(target, recording, mcp or "", world, pause)
        elif openapi is not None:
            new_server.from_openapi(target, openapi, base_url, serve, headers, bearer)
        elif mcp is not None:
            new_server.from_command(target, mcp, postgres, dump)
        return
    if environment or variables or seed is not None or probe is not None:
        raise SettingsError("--mcp-env, --var, --seed and --probe are for the server of --mcp")
    folder = write_world(name, parent)
    click.echo(
        f"made {folder}; next:\n"
        f"  rehearse worlds check {folder}\n"
        f"  rehearse run {folder} -p oracle\n"
        f"  open {folder / 'README.md'}"
    )


@click.command("agent")
@click.argument("name")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    default=Path(),
    help="Folder in which the agent's folder is made (default: the current one).",
)
def new_agent_command(name: str, output: Path) -> None:
    """Make an agent that asks a model, with its tests, to be changed.

    It plays as it is, with any model or with the task's solution in the model's place.
    """
    folder = write_agent(name, output)
    click.echo(
        f"made {folder}; next:\n"
        f"  pip install openai\n"
        f"  rehearse run shop_support -n 4 -p oracle --agent {folder / 'agent.py'}:agent\n"
        f"  open {folder / 'README.md'}"
    )
