"""Policy documents: what is read from JSON and XML, and what is said about wrong ones."""

import json
from typing import Any

import pytest

from nearcast.core.adaptation.errors import AdaptationError, PolicySyntaxError
from nearcast.core.adaptation.form_function import FormFunction
from nearcast.core.adaptation.policy_documents import (
    KINDS,
    LARGEST_DOCUMENT,
    PolicyValue,
    Template,
    check_fit,
    parse_policy,
)
from nearcast.core.adaptation.role_vectors import RoleVectors
from nearcast.core.adaptation.server_list import ServerList
from nearcast.core.language import parse
from tests.support.paper_files import APPENDIX_A_LISTING_1, LISTING_6_1, LISTING_7_1, LISTING_7_6

ROLES = """<RELEVANCE>
  <ROLE name="leader">
    <TASK name="offense">
      <RELEVANCE value="1 0.1" default="no"/>
    </TASK>
    <TASK name="defense">
      <RELEVANCE value="0 0.8" default="yes"/>
    </TASK>
  </ROLE>
  <ROLE name="scout">
    <TASK name="offense"><RELEVANCE value="1 1"/></TASK>
  </ROLE>
</RELEVANCE>
"""
ROLES_JSON: dict[str, Any] = {
    "default": {"role": "leader", "task": "defense"},
    "roles": {
        "leader": {"offense": [1, 0.1], "defense": "levels:0,3"},
        "scout": {"offense": [1, 1]},
    },
}


def parsed(kind: str, document: object) -> PolicyValue:
    text = document if isinstance(document, str) else json.dumps(document)
    return parse_policy(kind, "plan", text, 3)


def template(document: object) -> Template:
    found = parsed("template", document)
    assert isinstance(found, Template)
    return found


def roles(document: object) -> RoleVectors:
    found = parsed("roles", document)
    assert isinstance(found, RoleVectors)
    return found


def servers(document: object) -> ServerList:
    found = parsed("servers", document)
    assert isinstance(found, ServerList)
    return found


def refusal(kind: str, document: object, error: type[AdaptationError] = AdaptationError) -> str:
    with pytest.raises(AdaptationError) as caught:
        parsed(kind, document)
    assert type(caught.value) is error
    return str(caught.value)


@pytest.mark.parametrize("where", ["a = 1", {"op": "=", "args": [{"property": "a"}, 1]}])
def test_a_template_has_a_filter(where: object) -> None:
    assert template({"where": where}).where == parse("a = 1")


@pytest.mark.parametrize(
    "text",
    [
        '\ufeff{"where": "a = 1"}',
        '\ufeff<SUBSCRIPTION>\n<ATOM name="a" operator="=" value="x"/></SUBSCRIPTION>',
    ],
)
def test_a_byte_order_mark_is_no_part_of_a_document(text: str) -> None:
    assert len(template(text).where.atoms) == 1


def test_a_template_in_xml_is_two_valued_and_named_by_its_file() -> None:
    text = '<SUBSCRIPTION filename="s.xml"><ATOM name="a" operator="=" value="5"/></SUBSCRIPTION>'
    found = template(text)
    assert (found.filename, found.where.two_valued) == ("s.xml", True)
    assert len(FormFunction(found.where).atoms) == 1


def test_roles_are_the_same_in_json_and_xml() -> None:
    by_xml, by_json = roles(ROLES), roles(ROLES_JSON)
    assert by_xml.vectors == by_json.vectors
    assert by_xml.vectors["leader"] == {"offense": (3, 1), "defense": (0, 3)}
    defaults = [(each.default_role, each.default_task) for each in (by_xml, by_json)]
    assert defaults == [("leader", "defense")] * 2


def test_what_is_missing_of_role_and_task_is_the_default() -> None:
    found = roles(ROLES)
    assert found.vector(None, None) == (0, 3)
    assert found.vector(None, "offense") == (3, 1)
    assert found.vector("scout", "offense") == (3, 3)


def test_unknown_roles_and_tasks_are_answered_with_those_known() -> None:
    found = roles(ROLES)
    with pytest.raises(AdaptationError, match=r"no role 'leder'; .*'leader', 'scout'; did you"):
        found.vector("leder", None)
    with pytest.raises(AdaptationError, match=r"no task 'defense' of role 'scout'; .*'offense'"):
        found.vector("scout", None)
    without = roles({"roles": ROLES_JSON["roles"]})
    with pytest.raises(AdaptationError, match=r"no default role; the roles are 'leader', 'scout'"):
        without.vector(None, "offense")
    with pytest.raises(AdaptationError, match="no default task; the tasks are 'offense'"):
        without.vector("scout", None)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({}, "at least one role"),
        ({"roles": {"a": {"b": [1]}}, "rolls": {}}, "not 'rolls'"),
        ({"roles": {"a": {}}}, "Role 'a' has at least one task"),
        ({"roles": {"a": {"b": [2]}}}, "Role 'a', task 'b': Relevance is a number from 0 to 1"),
        ({"roles": {"a": {"b": "role"}}}, "gives the vector itself"),
        ({"roles": {"a": {"b": [1], "c": [1, 1]}}}, "role 'a', task 'b' has 1 values, and role"),
        ({"roles": {"a": {"b": [1]}}, "default": {"role": "c"}}, "no role 'c'; the roles are 'a'"),
        ({"roles": {"a": {"b": [1]}}, "default": {"role": "a", "task": "c"}}, "tasks are 'b'"),
        ({"roles": {"a": {"b": [1]}}, "default": "a"}, '{"role": ROLE, "task": TASK}'),
        ("<RELEVANCE/>", "Line 1: RELEVANCE holds at least one ROLE"),
        (ROLES.replace('"1 0.1"', '"1 7"'), "Line 4: Relevance is a number from 0 to 1"),
        (ROLES.replace('"1 0.1"', '"1 0.1 1"'), "task 'defense' (line 7) has 2"),
        (ROLES.replace('"1 0.1" default="no"', '"1 0.1" default="yes"'), "the first is on line 4"),
        (ROLES.replace('default="no"', 'default="maybe"'), "Line 4: default is yes or no"),
        (ROLES.replace('"defense"', '"offense"'), "Line 6: Role 'leader' has two tasks"),
        (ROLES.replace('"scout"', '"leader"'), "Line 10: There are two roles 'leader'"),
        (ROLES.replace('value="1 0.1" ', ""), "Line 4: RELEVANCE lacks value"),
        (ROLES.replace('<TASK name="defense">', '<TASK nam="defense">'), "Line 6: TASK has no nam"),
        (LISTING_7_1, "Line 1: A policy of kind roles is XML <RELEVANCE>, not <SERVERLIST>"),
    ],
)
def test_wrong_roles_are_explained(document: object, said: str) -> None:
    assert said in refusal("roles", document)


def test_a_server_list_is_the_same_in_json_and_xml() -> None:
    found = servers(LISTING_7_1)
    listed = [(each.name, each.hostname, each.port) for each in found.servers]
    hosts = (("1", "128.6.237.92", 5000), ("2", "128.6.237.92", 5300), ("3", "128.6.237.61", 5500))
    assert listed == list(hosts)
    given = [
        {"name": name, "hostname": host, "port": port, "relevance": [0.9] * 9}
        for name, host, port in hosts
    ]
    assert [each.vector for each in servers({"servers": given}).servers] == [
        each.vector for each in found.servers
    ]


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"servers": []}, '{"servers": [{name, hostname, port, relevance}'),
        ({"servers": [{"name": "1"}]}, "Server 1 has name, hostname, port, relevance"),
        (LISTING_7_1.replace("5300", "99999"), "Line 3: A port is 1 to 65535, not '99999'"),
        (LISTING_7_1.replace('name="2"', 'name="1"'), "two servers '1' (line 3)"),
        (LISTING_7_1.replace("SERVER ", "HOST "), "Line 2: SERVERLIST holds SERVER, not HOST"),
    ],
)
def test_wrong_server_lists_are_explained(document: object, said: str) -> None:
    assert said in refusal("servers", document)


@pytest.mark.parametrize(
    ("kind", "document", "said"),
    [
        ("detail", {}, "no kind of policy 'detail'; the kinds are " + ", ".join(KINDS)),
        ("matrx", {}, "did you mean matrix?"),
        ("template", {}, '"where", a filter as text or CQL2 JSON'),
        ("template", {"were": "a = 1"}, "A template has \"where\", not 'were'"),
        ("template", {"where": "a = "}, '"where": '),
        ("template", ROLES, "Line 1: A policy of kind template is XML <SUBSCRIPTION>"),
        ("template", "<SUBSCRIPTION>\n<ATOM/>\n</SUBSCRIPTION>", "Line 2: ATOM lacks name"),
        ("matrix", {"rows": [[1, 1, 1], [1, 1, 1]]}, "A matrix has 3 rows"),
        ("matrix", {"rows": [], "role": "x"}, "A matrix has \"rows\", not 'role'"),
        ("matrix", "<MATRIX/>", "Line 1: A policy of kind matrix is a JSON object, without an XML"),
        ("awareness", {"modules": {}}, "at least one module"),
        ("template", " " * LARGEST_DOCUMENT + "{}", "at most 65536 characters"),
        (
            "template",
            APPENDIX_A_LISTING_1,
            "Line 4: The operator of an ATOM is =, !=, <, <=, > or >=",
        ),
    ],
)
def test_wrong_documents_are_explained(kind: str, document: object, said: str) -> None:
    assert said in refusal(kind, document)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("where: a", "Line 1: "),
        ("[1, 2]", "Line 1: "),
        ('"text"', "Line 1: "),
        ('{"where":\n "a = 1",\n oops}', "Line 3: "),
        ('{"where":\n "a = 1"', "Line 2: "),
        ("<SUBSCRIPTION>\n<ATOM>\n</SUBSCRIPTION>", "Line 3: The ATOM opened on line 2"),
        (LISTING_6_1, "Line 17: The LOGICAL_OPERATOR opened on line 2 is still open here"),
        (LISTING_7_6, "Line 22: No element of this name is open; remove this closing tag"),
        ("", "Line 1: "),
        ("[" * 5000, "Line 1: "),
    ],
)
def test_what_is_neither_a_json_object_nor_xml_is_told_with_its_line(text: str, line: str) -> None:
    assert refusal("template", text, PolicySyntaxError).startswith(line)


def test_the_papers_nine_values_do_not_fit_its_eight_atoms() -> None:
    repaired = LISTING_6_1.replace("</SUBSCRIPTION>", "</LOGICAL_OPERATOR></SUBSCRIPTION>")
    with pytest.raises(AdaptationError) as caught:
        check_fit("plan", template(repaired), {"servers": servers(LISTING_7_1)})
    said = str(caught.value)
    assert said.startswith("servers/plan does not fit template/plan: server '1' (line 2): ")
    assert "has 9 values, and the filter has 8 atoms" in said
