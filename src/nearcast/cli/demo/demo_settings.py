"""Default `decide` and `aggregates` settings of the demo's broker."""

from collections.abc import Mapping, MutableMapping
from pathlib import Path

from nearcast.broker.config.configuration import effective
from nearcast.broker.config.setting_catalog import SETTINGS
from nearcast.cli.broker.config import toml_value

DEMO: Mapping[str, Mapping[str, str]] = {
    "decide": {"traffic/#": "spark", "spots/#": "spark"},
    "aggregates": {"spots/#": "people 3 per cell 500", "hazard/#": "volume 5"},
}


def choose_demo(
    config: Path | None, environ: MutableMapping[str, str], options: Mapping[str, object]
) -> None:
    """Set these where the user did not, as variables, so that the pipeline gets the same."""
    origins = effective(config, environ, options).origins
    for name, table in DEMO.items():
        if origins[name].kind == "default":
            environ[SETTINGS[name].variable] = toml_value(dict(table))
