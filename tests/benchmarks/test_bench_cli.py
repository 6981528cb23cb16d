import io

import msgspec
import pytest
from rich.console import Console
from typer.testing import CliRunner

from nearcast.benchmarks.matching.benchmark import MatchingResult
from nearcast.benchmarks.matching.peers import PEERS
from nearcast.benchmarks.matching.report import show
from nearcast.cli.bench import app

QUICK = ["matching", "--quick", "--events", "256", "--sizes", "2000,4k", "--json"]


@pytest.fixture(scope="module")
def output() -> str:
    with pytest.MonkeyPatch.context() as patch:
        lacking = PEERS["redis"]._replace(missing=lambda: "redis-server")
        patch.setitem(PEERS, "redis", lacking)
        ran = CliRunner().invoke(app, [*QUICK, "--peers", "numpy,strtree,redis"])
    assert ran.exit_code == 0, ran.output
    return ran.stdout


def test_json_has_every_figure(output: str) -> None:
    result = msgspec.json.decode(output)
    assert result["benchmark"] == "matching"
    assert result["settings"]["seed"] == 1
    assert result["first_start_s"] > 0.0
    assert {"python", "numpy", "numba", "strtree"} <= result["versions"].keys()
    assert [size["subscriptions"] for size in result["sizes"]] == [2_000, 4_000]
    for size in result["sizes"]:
        ours = size["nearcast"]
        assert ours["events_per_s"].keys() == {"1", "64", "4096"}
        assert ours["from_objects_per_s"].keys() == {"1", "64"}
        for cost in ("move", "add", "remove"):
            assert ours[f"{cost}_us"] > 0.0
            assert ours[f"{cost}_single_us"] > 0.0
        assert ours["bytes_per_subscription"] > 0.0
        assert size["peers"]["redis"]["skipped"] == "not installed: redis-server"
        for name in ("numpy", "strtree"):
            peer = size["peers"][name]
            assert peer["events_per_s"].keys() == ours["events_per_s"].keys()
            for batch, rate in peer["events_per_s"].items():
                ratio = ours["events_per_s"][batch] / rate
                assert peer["ratios"][batch] == pytest.approx(ratio)


def test_tables_show_sizes_peers_growth_and_what_is_missing(output: str) -> None:
    screen = Console(file=io.StringIO(), width=80)
    with screen.capture() as captured:
        show(msgspec.json.decode(output, type=MatchingResult), screen)
    shown = captured.get()
    for words in ("4,000", "strtree", "Growth", "bytes a subscription", "First start"):
        assert words in shown
    assert "redis: not installed: redis-server" in shown


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--peers", "numpy,oracle"], "'oracle' is no peer"),
        (["--sizes", "10k,many"], "'many' is no number of subscriptions"),
        (["--sizes", "0"], "'0' is no number of subscriptions"),
    ],
)
def test_a_wrong_option_is_explained(options: list[str], said: str) -> None:
    ran = CliRunner().invoke(app, ["matching", *options])
    assert ran.exit_code == 2
    assert said in " ".join(ran.output.replace("│", " ").split())
