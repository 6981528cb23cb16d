"""The benchmark of peers: everybody gets everything once, and the server pushes once per chain."""

import msgspec
from typer.testing import CliRunner

from nearcast.cli.bench import app


def test_the_server_pushes_once_per_chain_and_everybody_gets_everything() -> None:
    ran = CliRunner().invoke(app, ["peers", "--quick", "--json"])
    assert ran.exit_code == 0, ran.output
    result = msgspec.json.decode(ran.stdout)
    settings = result["settings"]
    assert result["pushes"] == [result["chains"]] * settings["messages"]
    assert result["whole"] == settings["peers"] + settings["direct"]
    assert result["sent_again"] == 0
