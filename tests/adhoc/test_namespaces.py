"""Real multicast between network namespaces: nodes meet, part, recover, die and are attacked."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.adhoc.namespace_field import CANNOT

ROOT = Path(__file__).parents[2]


def test_four_nodes_in_namespaces_go_on_whatever_one_of_them_does() -> None:
    if not shutil.which("unshare") or not shutil.which("ip"):
        pytest.skip("no network namespaces: unshare or ip is not installed")
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", "--mount", sys.executable, "-m",
         "tests.adhoc.namespace_field"],
        capture_output=True, text=True, timeout=400, check=False, cwd=ROOT,
    )  # fmt: skip
    if done.returncode == CANNOT or "unshare:" in done.stderr:
        pytest.skip(f"no network namespaces: {done.stdout}{done.stderr.strip()[-300:]}")
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    # The same costs as on the simulated channel.
    assert (seen["cost within range"], seen["cost beyond range"]) == (1, 4)
    assert (seen["beacon within range"], seen["beacon beyond range"]) == (1, 4)
    assert seen["beyond the area"] == []
    assert seen["missed while apart"]
    assert seen["unsealed"] > 100
    # By a member, who has the group key and signs, in the names of others.
    assert seen["forged"] > 100
    for name in "cd":
        assert set(seen["raised"]) <= set(seen["events"][name])
        assert len(seen["events"][name]) == len(set(seen["events"][name]))
    # None is forged. The first is still true when another member comes into its area.
    assert set(seen["lanes"]) - {1} == {2, 3, 4, 5, 6}


def in_namespace(*command: str) -> "subprocess.CompletedProcess[str]":
    """Run Python in a network namespace of its own, or skip the test."""
    if not shutil.which("unshare") or not shutil.which("ip"):
        pytest.skip("no network namespaces: unshare or ip is not installed")
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", sys.executable, *command],
        capture_output=True, text=True, timeout=200, check=False, cwd=ROOT,
    )  # fmt: skip
    if done.returncode == CANNOT or "unshare:" in done.stderr:
        pytest.skip(f"no network namespaces: {done.stdout}{done.stderr.strip()[-300:]}")
    return done


def test_ipv6_chosen_interfaces_and_what_the_kernel_forbids() -> None:
    done = in_namespace("-m", "tests.adhoc.namespace_links")
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert "is not permitted (Permission denied): let the firewall pass UDP" in seen["forbidden"]
    assert "goes out on one interface: name it" in seen["IPv6 anywhere"]
    assert "near, far" in seen["IPv6 anywhere"] or "far, near" in seen["IPv6 anywhere"]
    assert seen["received"] == [["p", {"lane": 2}]]
    assert seen["other interface"] == []


def test_without_a_multicast_route_it_is_said_what_to_do() -> None:
    done = in_namespace("-m", "nearcast", "adhoc", "listen", "#", "--at", "53.35,-6.26")
    assert done.returncode == 1
    assert "no route for multicast" in done.stderr
    assert "ip route add 239.0.0.0/8 dev" in done.stderr
