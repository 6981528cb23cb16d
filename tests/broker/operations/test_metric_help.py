"""Every figure of `/metrics` says what it means."""

import json
import re
from pathlib import Path

import nearcast.broker
from nearcast.broker.bridge.bridge import Bridge
from nearcast.broker.config.settings import BridgeSection as Section
from nearcast.broker.config.settings import Settings
from nearcast.broker.operations.metric_help import help_of
from nearcast.broker.operations.metrics import flat
from nearcast.broker.server import Server
from nearcast.console.http_connections import HttpConnections
from nearcast.pipeline.jobs.status import QueryStatus, Status, figures
from nearcast.store import Store
from tests.support.running_broker import RunningBroker

COUNTER = re.compile(r'counters\["([a-z_]+)"\]')


def test_every_part_explains_its_figures(tmp_path: Path) -> None:
    broker = RunningBroker(data=tmp_path)
    told = {f"hub_{name}" for name in broker.server.statistics()}
    told |= {f"store_{name}" for name in broker.server.keeper_statistics()}
    told |= {f"priority_{n}".split("{")[0] for n in broker.server.priority_statistics()}
    broker.stop()
    store = Store(tmp_path, "local")
    told |= {f"store_{name}" for name in flat(store.statistics())}
    store.close()
    bridged = Server(Settings(bridge=Section(url="mqtt://127.0.0.1:1")))
    told |= {f"bridge_{name}" for name in Bridge(bridged).statistics()}
    told |= {f"http_{name}" for name in flat(HttpConnections().statistics())}
    status = Status(0.0, 1, [QueryStatus("match", "running")])
    told |= {f"pipeline_{name}" for name in figures(status)} | {"pipeline_restarts_total"}
    assert {name for name in told if help_of(name) is None} == set()


def test_every_counter_of_the_broker_is_explained() -> None:
    (base,) = nearcast.broker.__path__
    sources = [path.read_text() for path in Path(base).rglob("*.py")]
    names = {name for source in sources for name in COUNTER.findall(source)}
    assert names
    assert {name for name in names if help_of(f"hub_{name}_total") is None} == set()


def test_a_figure_of_a_query_names_the_query() -> None:
    assert help_of("pipeline_match_lag_rows") == (
        "Rows that are in the log and not yet dealt with: query match."
    )
    assert help_of("hub_nothing") is None


def test_the_board_for_grafana_shows_metrics_that_there_are() -> None:
    board = json.loads(Path("docs/grafana.json").read_text())
    shown = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    names = {name for expr in shown for name in re.findall(r"nearcast_(\w+)", expr)}
    assert len(names) > 20
    assert [name for name in names if help_of(name) is None] == []
