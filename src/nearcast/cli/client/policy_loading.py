"""Setting several policies of a broker: all of them, or none.

Templates go before what is for their atoms, and what is there for the atoms of another version is
removed before that. If the broker refuses one, all that was there before is set again.
"""

import asyncio
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from nearcast.cli.client.policy_files import FiledPolicy, PolicyKey
from nearcast.client.api.node import Node
from nearcast.client.errors import RejectedError
from nearcast.core.adaptation.policy_documents import OF_TEMPLATE, TEMPLATE

Step = tuple[PolicyKey, bytes]
"""A policy and its document; an empty one removes it."""


async def load_policies(me: Node, policies: Sequence[FiledPolicy]) -> str | None:
    """Set policies over a connected node; return why the broker refused, or None."""
    before = await policies_in_force(me)
    done: list[PolicyKey] = []
    try:
        for key, document in steps_to(policies, before):
            # What is sent may be in force even if its answer does not come.
            done.append(key)
            try:
                await _send(me, key, document)
            except RejectedError as error:
                done.pop()
                lost = await _take_back(me, done, before)
                return f"{key[0]}/{key[1]}: {error}" + "".join(lost)
    except asyncio.CancelledError:
        await _take_back(me, done, before)
        raise
    return None


async def policies_in_force(me: Node) -> dict[PolicyKey, bytes]:
    """Return all policies that the node may read, by kind and name."""
    found: dict[PolicyKey, bytes] = {}
    for event in await me.retained("$policy/+/+"):
        kind, name = map(unquote, event.subject.split("/")[1:3])
        found[kind, name] = event.payload
    return dict(sorted(found.items()))


def steps_to(policies: Sequence[FiledPolicy], before: Mapping[PolicyKey, bytes]) -> list[Step]:
    """Return what to send in which order."""
    documents = {each.key: each.text.encode() for each in policies}
    changed = {key for key, document in documents.items() if before.get(key) != document}
    outdated = [
        (kind, name)
        for kind, name in documents
        if kind in OF_TEMPLATE and (TEMPLATE, name) in changed and (kind, name) in before
    ]
    return [
        *((key, b"") for key in outdated),
        *sorted(documents.items(), key=lambda step: step[0][0] in OF_TEMPLATE),
    ]


async def _take_back(
    me: Node, done: Sequence[PolicyKey], before: Mapping[PolicyKey, bytes]
) -> list[str]:
    """Set what was there before; return a line for each that the broker refuses now."""
    lost: list[str] = []
    keys = list(dict.fromkeys(done))
    vectors = [key for key in keys if key[0] in OF_TEMPLATE]
    for key in vectors:
        await _send(me, key, b"")
    for key in sorted(keys, key=lambda key: key[0] in OF_TEMPLATE):
        if key not in vectors or key in before:
            try:
                await _send(me, key, before.get(key, b""))
            except RejectedError as error:
                lost.append(f"\n{key[0]}/{key[1]} cannot be set as it was: {error}")
    return lost


async def _send(me: Node, key: PolicyKey, document: bytes) -> None:
    if document:
        await me.set_policy(*key, document)
    else:
        await me.remove_policy(*key)
