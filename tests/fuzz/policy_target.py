"""Policies in JSON and XML: read, or refused with a reason that can be sent; bounded work."""

import json
from random import Random

from nearcast.core.adaptation.errors import AdaptationError
from nearcast.core.adaptation.policy_documents import KINDS, parse_policy
from nearcast.core.engine.books.policy_book import PolicyBook
from nearcast.core.model.inputs import PolicySet
from tests.support.fuzzing.call_counter import counted_calls
from tests.support.fuzzing.fuzz_target import FuzzTarget
from tests.support.fuzzing.mutations import mutated_text
from tests.support.paper_files import LISTING_6_1, LISTING_7_1, LISTING_7_6

CALLS, CALLS_PER_CHARACTER = 20_000, 60
_ROLES = """<RELEVANCE><ROLE name="a"><TASK name="b"><RELEVANCE value="1 0.1 0 1" default="yes"/>
</TASK></ROLE></RELEVANCE>"""
_DOCUMENTS = (
    '{"where": "a = 1 OR b = 2 AND NOT c > 3"}',
    '{"default": {"role": "a", "task": "b"}, "roles": {"a": {"b": [1, 0.1, 0], "c": "levels:3"}}}',
    '{"servers": [{"name": "1", "hostname": "h", "port": 5000, "relevance": [0.9, 0.9]}]}',
    '{"rows": [[3, 2, 1], [2, 1, 1], [-1, 1, 1]]}',
    '{"modules": {"n": {"measure": "m", "intervals": [[0, 1], [1, 2], [2, null]], '
    '"hysteresis": 5}}, "space": [1, 2, 3]}',
    LISTING_6_1, LISTING_6_1.replace("</SUB", "</LOGICAL_OPERATOR></SUB"), LISTING_7_1, LISTING_7_6,
    _ROLES,
)  # fmt: skip
_WORDS = (
    "{", "}", "[", "]", ":", ",", '"', "null", "true", "-1", "1e400", "0.5", "1e-320", "levels:",
    "role", '"default"', '"space"', "<", "/>", "</", "&lt;", "&#0;", "<!--", "<ROLE", "value=",
    "<![CDATA[", "\\ud800", "\ufeff", "\u2028", "ǅ", "９", "\n", str(10**400),
)  # fmt: skip
_LARGE = "9" * 5_000
EXAMPLES = {
    "a priority beyond all numbers": ("matrix", f'{{"rows": [[{_LARGE}, 1, 1], [1, 1, 1], []]}}'),
    "a level of many digits": ("roles", f'{{"roles": {{"a": {{"b": "levels:{_LARGE}"}}}}}}'),
    "a port of many digits": (
        "servers",
        f'<SERVERLIST><SERVER hostname="h" port="0{_LARGE}" name="1" value="1"/></SERVERLIST>',
    ),
    "relevance beyond all numbers": ("roles", f'{{"roles": {{"a": {{"b": [1{"0" * 400}]}}}}}}'),
    "an interval beyond all numbers": (
        "awareness",
        '{"modules": {"n": {"measure": "m", "intervals": [[0, 1], [1, 1%s], [2, null]]}}}'
        % ("0" * 400),
    ),
    "a hysteresis beyond all numbers": (
        "awareness",
        '{"modules": {"n": {"measure": "m", "hysteresis": 1%s, "intervals": [[0, 1], [1, 2], '
        "[2, null]]}}}" % ("0" * 400),
    ),
}


class PolicyTarget(FuzzTarget[tuple[str, str]]):
    """A kind and a document."""

    name = "policies"
    suite_cases = 3_000
    examples = EXAMPLES

    def generate(self, random: Random) -> tuple[str, str]:
        text = random.choice(_DOCUMENTS)
        if random.random() < 0.05:
            text = json.dumps({"where": "[" * random.randrange(2_000)})
        return random.choice(KINDS), mutated_text(random, text, _WORDS)

    def check(self, case: tuple[str, str]) -> None:
        kind, text = case
        with counted_calls() as counter:
            try:
                parse_policy(kind, "name", text, 3)
            except AdaptationError as error:
                str(error).encode()
                return
        most = CALLS + CALLS_PER_CHARACTER * len(text)
        assert counter.calls <= most, f"{counter.calls} calls for {len(text)} characters"
        book, again = PolicyBook(3), PolicyBook(3)
        book.put(kind, "name", text)
        again.resume(book)
        assert list(again) == [PolicySet(kind, "name", text)]
        assert not again.unfit
