from hypothesis import given
from hypothesis import strategies as st

from nearcast.broker.auth.identities import counted_as, parse_address
from nearcast.broker.auth.rates import ConnectRates, FailureRates


def test_an_address_may_knock_a_seconds_worth_at_once_and_then_at_the_rate() -> None:
    knocks = ConnectRates(8.0)
    assert [knocks.allow("a", 100.0) for _ in range(9)] == [True] * 8 + [False]
    assert knocks.allow("b", 100.0)
    assert [knocks.allow("a", 100.125), knocks.allow("a", 100.125)] == [True, False]
    assert knocks.refused == 2


def test_a_rate_of_nothing_lets_everyone_knock() -> None:
    knocks = ConnectRates(0.0)
    assert all(knocks.allow("a", 0.0) for _ in range(1_000))
    assert len(knocks) == 0


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30)), max_size=60))
def test_no_address_knocks_more_than_its_rate(steps: list[tuple[str, int]]) -> None:
    knocks, now, passed = ConnectRates(2.0), 0.0, dict[str, list[float]]()
    for address, tenths in steps:
        now += tenths / 10
        if knocks.allow(address, now):
            passed.setdefault(address, []).append(now)
    for times in passed.values():
        for first in range(len(times)):
            for last in range(first, len(times)):
                assert last - first + 1 <= 2 + 2 * (times[last] - times[first]) + 1e-6


def test_addresses_that_were_quiet_are_forgotten() -> None:
    knocks = ConnectRates(10.0, most=100)
    for number in range(1_000):
        knocks.allow(str(number), 0.0)
        assert len(knocks) <= 100
    for number in range(200):
        knocks.allow("a", 10.0 + number / 10)
    assert len(knocks) == 1


def test_a_clock_that_jumps_back_shuts_nobody_out() -> None:
    knocks = ConnectRates(1.0)
    assert knocks.allow("a", 1e6)
    assert not knocks.allow("a", 0.0)
    assert knocks.allow("a", 1.0)
    failures = FailureRates(1)
    failures.note("a", 1e6)
    assert failures.wait_s("a", 0.0) == 0.0


def test_wrong_passwords_are_forgiven_when_the_minute_is_over() -> None:
    failures = FailureRates(2)
    failures.note("a", 100.0)
    assert failures.wait_s("a", 110.0) == 0.0
    failures.note("a", 120.0)
    assert failures.wait_s("a", 120.0) == 40.0
    assert failures.wait_s("b", 120.0) == 0.0
    assert failures.wait_s("a", 160.0) == 0.0
    failures.note("a", 160.0)
    assert failures.wait_s("a", 160.0) == 0.0


def test_a_check_that_ends_late_does_not_open_the_door_again() -> None:
    failures = FailureRates(2)
    failures.note("a", 100.0)
    failures.note("a", 99.0)
    assert failures.wait_s("a", 98.0) > 0


def test_failures_are_not_counted_where_any_number_is_allowed() -> None:
    failures = FailureRates(0)
    for _ in range(100):
        failures.note("a", 0.0)
    assert failures.wait_s("a", 0.0) == 0.0


def test_memory_of_failures_is_bounded() -> None:
    failures = FailureRates(1, most=100)
    for number in range(1_000):
        failures.note(str(number), float(number) / 1_000)
        assert len(failures) <= 100
    assert failures.wait_s("999", 1.0) > 0
    assert failures.wait_s("x", 100.0) == 0.0
    assert len(failures) == 0


def test_an_ipv6_subscriber_counts_once_and_mapped_addresses_are_ipv4() -> None:
    assert counted_as("2001:db8::1") == counted_as("2001:db8::ffff:1") == "2001:db8::/64"
    assert counted_as("fe80::1%eth0") == "fe80::/64"
    assert counted_as("::1") == "::1"
    assert counted_as("::ffff:192.0.2.7") == counted_as("192.0.2.7") == "192.0.2.7"
    assert counted_as("a socket") == "a socket"
    assert parse_address("a socket") is None
