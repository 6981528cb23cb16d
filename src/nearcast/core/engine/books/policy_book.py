"""The book of policies: documents in force by kind and name, and what they say.

A document that is wrong is refused, and the one before stays. Which are in force follows from the
documents and the number of levels alone: after a restart with other levels, documents that no
longer fit are kept without effect, with the reason, until they fit again or are replaced.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from nearcast.core.adaptation.awareness import Awareness, default_awareness
from nearcast.core.adaptation.errors import AdaptationError
from nearcast.core.adaptation.policy_documents import (
    AWARENESS,
    KINDS,
    MATRIX,
    OF_TEMPLATE,
    ROLES,
    TEMPLATE,
    PolicyValue,
    Template,
    check_fit,
    check_key,
    parse_policy,
)
from nearcast.core.adaptation.priority_matrix import PriorityMatrix, delay_matrix
from nearcast.core.adaptation.role_vectors import RoleVectors
from nearcast.core.model.errors import did_you_mean
from nearcast.core.model.inputs import PolicySet

DEFAULT = "default"
"""The name of the matrix and the awareness of those whose role has none of its own."""
MOST_LISTED = 20

PolicyKey = tuple[str, str]
"""Kind and name."""


class PolicyBook:
    """Policies by kind and name."""

    def __init__(self, levels: int) -> None:
        self.levels = levels
        self.changed: list[Callable[[str, str], None]] = []
        """Called with the kind and name of each policy that was set or removed."""
        self._documents: dict[PolicyKey, str] = {}
        self._values: dict[PolicyKey, PolicyValue] = {}
        self._unfit: dict[PolicyKey, str] = {}
        self._delay = delay_matrix(levels)
        self._network = default_awareness(levels)

    def put(self, kind: str, name: str, document: str) -> None:
        """Set a policy; raise AdaptationError if it is wrong or does not fit the others."""
        value = self.check(kind, name, document)
        self._documents[kind, name] = document
        self._values[kind, name] = value
        self._unfit.pop((kind, name), None)
        self._notify(kind, name)

    def remove(self, kind: str, name: str) -> None:
        """Remove a policy, if there is one; raise AdaptationError if there is no such kind."""
        check_key(kind, name)
        if self._documents.pop((kind, name), None) is None:
            return
        self._values.pop((kind, name), None)
        self._unfit.pop((kind, name), None)
        self._notify(kind, name)

    def check(self, kind: str, name: str, document: str) -> PolicyValue:
        """Return what a document says; raise AdaptationError if it would be refused now."""
        value = parse_policy(kind, name, document, self.levels)
        if isinstance(value, Template):
            others = {each: self._values.get((each, name)) for each in OF_TEMPLATE}
            known = {each: other for each, other in others.items() if other is not None}
            check_fit(name, value, known)
        elif kind in OF_TEMPLATE:
            template = self._values.get((TEMPLATE, name))
            if isinstance(template, Template):
                check_fit(name, template, {kind: value})
        return value

    def get(self, kind: str, name: str) -> PolicyValue | None:
        """What is in force under a kind and a name; None if there is none."""
        return self._values.get((kind, name))

    def document(self, kind: str, name: str) -> str | None:
        """The text of a policy as it was given."""
        return self._documents.get((kind, name))

    @property
    def unfit(self) -> Mapping[PolicyKey, str]:
        """Policies without effect since a restart with other levels, each with the reason."""
        return self._unfit

    def template(self, name: str) -> Template:
        """The template of a name; raise AdaptationError that lists those that there are."""
        found = self._values.get((TEMPLATE, name))
        if isinstance(found, Template):
            return found
        raise self._missing(TEMPLATE, name)

    def roles(self, name: str) -> RoleVectors:
        """The roles for a template; raise AdaptationError that lists those that there are."""
        found = self._values.get((ROLES, name))
        if isinstance(found, RoleVectors):
            return found
        raise self._missing(ROLES, name)

    def matrix_for(self, role: str | None) -> PriorityMatrix:
        """The matrix of a role, else the default one, else the delay strategy."""
        for name in (role, DEFAULT):
            found = None if name is None else self._values.get((MATRIX, name))
            if isinstance(found, PriorityMatrix):
                return found
        return self._delay

    def awareness_for(self, role: str | None) -> Awareness:
        """The awareness of a role, else the default one, else that of the network alone."""
        for name in (role, DEFAULT):
            found = None if name is None else self._values.get((AWARENESS, name))
            if isinstance(found, Awareness):
                return found
        return self._network

    def __len__(self) -> int:
        return len(self._documents)

    def __iter__(self) -> Iterator[PolicySet]:
        """All policies as inputs, also those without effect, by kind and name."""
        for (kind, name), document in sorted(self._documents.items(), key=_in_order):
            yield PolicySet(kind, name, document)

    def resume(self, policies: Iterable[PolicySet]) -> None:
        """Restore policies, in any order; those that no longer fit have no effect."""
        given = {
            (each.policy_kind, each.name): each.document
            for each in policies
            if each.document is not None
        }
        for key, document in sorted(given.items(), key=_in_order):
            self._documents[key] = document
            self._apply(key)

    def _apply(self, key: PolicyKey) -> None:
        """Let a document have its effect if it fits."""
        self._values.pop(key, None)
        self._unfit.pop(key, None)
        try:
            self._values[key] = self.check(*key, self._documents[key])
        except AdaptationError as error:
            self._unfit[key] = str(error)

    def _notify(self, kind: str, name: str) -> None:
        # What was without effect because of its template may fit the one of now.
        again = [(each, name) for each in OF_TEMPLATE if kind == TEMPLATE]
        revived = [key for key in again if key in self._unfit]
        for key in revived:
            self._apply(key)
        for key in ((kind, name), *(key for key in revived if key in self._values)):
            for tell in self.changed:
                tell(*key)

    def _missing(self, kind: str, name: str) -> AdaptationError:
        reason = self._unfit.get((kind, name))
        if reason is not None:
            return AdaptationError(f"{kind}/{name} has no effect at these levels: {reason}")
        known = sorted(other for each, other in self._values if each == kind)
        if not known:
            return AdaptationError(f"There is no {kind}/{name[:80]}: no {kind} is set.")
        listed = ", ".join(known[:MOST_LISTED]) + (", …" if len(known) > MOST_LISTED else "")
        hint = did_you_mean(name, known)
        return AdaptationError(f"There is no {kind}/{name[:80]}; there are {listed}{hint or '.'}")


def _in_order(item: tuple[PolicyKey, str]) -> tuple[int, str]:
    """Templates before what is for their atoms."""
    (kind, name), _ = item
    return (KINDS.index(kind) if kind in KINDS else len(KINDS)), name
