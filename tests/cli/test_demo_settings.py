"""The demo leaves spots and traffic to the pipeline, unless the user decides otherwise."""

from pathlib import Path

from nearcast.broker.config.configuration import load
from nearcast.cli.demo.city_scene import CityScene
from nearcast.cli.demo.demo_settings import DEMO, choose_demo
from nearcast.cli.demo.residents import VISIT_S, Residents
from nearcast.core.model.inputs import Published, Subscribed
from nearcast.simulation.movement.city_life import CityLife


def test_what_the_user_left_open_is_chosen() -> None:
    environ: dict[str, str] = {}
    choose_demo(None, environ, {})
    settings = load(None, environ, {})
    assert settings.decide == DEMO["decide"]
    assert settings.aggregates == DEMO["aggregates"]


def test_what_the_user_said_stays(tmp_path: Path) -> None:
    file = tmp_path / "nearcast.toml"
    file.write_text('[decide]\n"spots/#" = "edge"\n')
    environ = {"NEARCAST_AGGREGATES": '{"hazard/#" = "volume 2"}'}
    choose_demo(file, environ, {})
    settings = load(file, environ, {})
    assert settings.decide == {"spots/#": "edge"}
    assert settings.aggregates == {"hazard/#": "volume 2"}


def test_residents_do_what_there_is_to_decide_and_to_gather() -> None:
    residents = Residents("mqtt://localhost", CityScene(CityLife(30)))
    wanted = {
        each.subscription.subject
        for each in residents._subscriptions()
        if isinstance(each, Subscribed)
    }
    assert wanted == set(DEMO["decide"])
    said = [
        each.event.publisher
        for second in range(VISIT_S)
        for each in residents._visits(second)
        if isinstance(each, Published)
    ]
    assert sorted(said) == sorted(CityLife(30, 1).people)
