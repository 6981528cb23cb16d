"""The page about limits names every setting, every quota and every stage."""

import re
from pathlib import Path

import msgspec

from nearcast.broker.config.settings import Limits
from nearcast.broker.quotas.memory_budget import ENTERED_AT
from nearcast.broker.quotas.quota import QUOTAS

PAGE = (Path(__file__).parents[3] / "docs/reference/limits.md").read_text()


def test_every_setting_is_on_the_page() -> None:
    named = set(re.findall(r"`(?:limits\.)?([a-z_]+)`", PAGE))
    settings = {field.name for field in msgspec.structs.fields(Limits)}
    assert settings - named == set()


def test_every_quota_has_its_row() -> None:
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.splitlines()]
    by_metric = {cells[4].strip("`"): cells for cells in rows if len(cells) == 6}
    for quota in QUOTAS:
        _, session, user, in_all, _, _ = by_metric[f"nearcast_hub_quota_{quota.resource.label}"]
        assert in_all == f"`{quota.in_all}`"
        assert quota.per_session is None or session == f"`{quota.per_session}`"
        assert user == "share"


def test_every_stage_of_memory_is_on_the_page() -> None:
    stages = re.findall(r"^\| (\d+) % \| (\w+) \|", PAGE, re.MULTILINE)
    assert stages == [
        (f"{100 * part:.0f}", stage.name.lower()) for stage, part in ENTERED_AT.items()
    ]
