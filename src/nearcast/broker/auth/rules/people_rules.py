"""People rules: the `[[people]]` tables of the rules file, smallest numbers of people by topic."""

from msgspec import Struct

from nearcast.broker.auth.toml_file import TomlFile
from nearcast.core.gathering.base_sets import base_set_rule
from nearcast.core.model.errors import ModelError, did_you_mean
from nearcast.core.model.geometry.position import plain, shown
from nearcast.core.model.people_bounds import LEAST, MOST
from nearcast.core.model.subject import check_pattern, subject_matches

SECTION = "people"
_KEYS = ("topics", "least", "per", "every", "wait")


class PeopleRule(Struct, frozen=True):
    """A smallest number of people for topics."""

    topics: tuple[str, ...]
    least: int
    base_set: str = ""
    """How events are divided, and when they go out."""

    def fits(self, topic: str) -> bool:
        """Whether the rule is for a topic."""
        return any(subject_matches(pattern, topic) for pattern in self.topics)


def read_people(file: TomlFile) -> tuple[tuple[PeopleRule, ...], list[str]]:
    """Return the rules of a file, and what is wrong with it."""
    rules: list[PeopleRule] = []
    problems: list[str] = []
    for at, table in enumerate(file.tables(SECTION)):
        for key in table:
            if key not in _KEYS:
                known = f"{key} means nothing there; there is {', '.join(_KEYS)}"
                why = known + did_you_mean(key, _KEYS)
                problems.append(f"{file.place_of(SECTION, at, key)}: {why}")
        try:
            rules.append(_rule(table))
        except ModelError as error:
            problems.append(f"{file.place_of(SECTION, at, None)}: {error}")
    return tuple(rules), problems


def _rule(table: dict[str, object]) -> PeopleRule:
    topics = table.get("topics")
    wanted = [topics] if isinstance(topics, str) else topics
    if not isinstance(wanted, list) or not wanted:
        raise ModelError('topics is a topic filter or a list of them, such as "spots/#"')
    for pattern in wanted:
        if not isinstance(pattern, str):
            raise ModelError(f"a topic filter is text, not {shown(pattern)}")
        check_pattern(pattern)
    least = table.get("least")
    if type(least) is not int or not LEAST <= least <= MOST:
        raise ModelError(f"least is a number of people from {LEAST} to {MOST}, not {shown(least)}")
    clauses = [f"per {table['per']}"] if "per" in table else []
    for key in ("every", "wait"):
        value = table.get(key)
        if value is not None:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ModelError(f"{key} is a number of seconds, not {shown(value)}")
            clauses.append(f"{key} {plain(float(value))}")
    text = " ".join(clauses)
    base_set_rule(text)
    return PeopleRule(tuple(wanted), least, text)
