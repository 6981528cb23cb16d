from hypothesis import given
from hypothesis import strategies as st

from nearcast.simulation.network.faults import ALL_KINDS, Fault, FaultKind, plan_faults

PEOPLE = ["ann", "bob"]


@given(st.integers(), st.integers(0, 30))
def test_a_plan_is_in_order_and_over_in_time(seed: int, count: int) -> None:
    plan = plan_faults(seed, PEOPLE, from_s=2.0, until_s=9.0, count=count)
    assert len(plan) == count
    assert [fault.at_s for fault in plan] == sorted(fault.at_s for fault in plan)
    for fault in plan:
        assert fault.at_s >= 2.0
        assert fault.at_s + fault.lasts_s <= 9.000002
        assert fault.host == "broker" if fault.kind.of_broker else fault.host in PEOPLE
        assert fault.kind is not FaultKind.CLIENT_AMNESIA


def test_one_seed_is_one_plan() -> None:
    assert plan_faults(1, PEOPLE, until_s=9.0, count=9) == plan_faults(
        1, PEOPLE, until_s=9.0, count=9
    )
    assert plan_faults(1, PEOPLE, until_s=9.0, count=9) != plan_faults(
        2, PEOPLE, until_s=9.0, count=9
    )


def test_every_kind_comes_up() -> None:
    plan = plan_faults(0, PEOPLE, until_s=9.0, count=500)
    assert {fault.kind for fault in plan} == set(ALL_KINDS)


def test_a_fault_says_what_it_is() -> None:
    fault = Fault(1.5, FaultKind.SLOW, "ann", 2.0)
    assert str(fault) == "1.500 s: ann has a slow link (2.000 s)"
