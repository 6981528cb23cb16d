"""The book of subscriber contexts: classes of awareness, and the row of the matrix that follows.

Classes of links are told by the host, those of attributes follow from contexts, with hysteresis. A
session's row decides the priority of everything that its subscriptions with relevance match.
"""

from collections.abc import Callable, Iterator, Mapping

from nearcast.core.adaptation.awareness import Awareness, number_at
from nearcast.core.adaptation.priority_matrix import MatrixRow
from nearcast.core.engine.books.policy_book import PolicyBook
from nearcast.core.model.inputs import Classified

Classes = dict[str, int]
"""By the name of a module."""
ROLE, TASK = "role", "task"
_NONE: Classes = {}


class ContextBook:
    """Classes by session and by node."""

    def __init__(
        self, policies: PolicyBook, context_of: Callable[[str], Mapping[str, object]]
    ) -> None:
        self._policies = policies
        self._context_of = context_of
        self._links: dict[str, Classes] = {}
        self._attributes: dict[str, Classes] = {}

    def told(self, each: Classified) -> None:
        """Take the class of a link, or of an attribute from a snapshot."""
        of, name = (self._links, each.session or each.node)
        if each.attribute:
            of, name = self._attributes, each.node
        classes = of.setdefault(name, {})
        if each.context_class is None:
            classes.pop(each.module, None)
        else:
            classes[each.module] = each.context_class
        if not classes:
            del of[name]

    def classify(self, node: str) -> None:
        """Classify the attributes of a node's context as they are now."""
        attributes, before = self._context_of(node), self._attributes.get(node, {})
        classes: Classes = {}
        for module in self.awareness(node).modules:
            value = number_at(attributes, module.attribute) if module.attribute else None
            if value is not None:
                classes[module.name] = module.classify(value, before.get(module.name))
        if classes:
            self._attributes[node] = classes
        else:
            self._attributes.pop(node, None)

    def awareness(self, node: str) -> Awareness:
        """The awareness that a policy gives to a node's role."""
        return self._policies.awareness_for(self.role(node))

    def role(self, node: str) -> str | None:
        """The role of a node, None if it has none."""
        return self._text(node, ROLE)

    def task(self, node: str) -> str | None:
        """The task of a node, None if it has none."""
        return self._text(node, TASK)

    def context_class(self, session: str) -> int:
        """The class of a session now."""
        node = session.partition("~")[0]
        return self._class_by(self.awareness(node), node, session)

    def row(self, session: str) -> MatrixRow:
        """The row of the priority matrix that applies to a session now."""
        node = session.partition("~")[0]
        role, policies = self.role(node), self._policies
        context_class = self._class_by(policies.awareness_for(role), node, session)
        return policies.matrix_for(role).row(context_class)

    def _class_by(self, awareness: Awareness, node: str, session: str) -> int:
        of_node, of_link = self._attributes.get(node, _NONE), self._links.get(session, _NONE)
        known: Classes = {}
        for module in awareness.modules:
            name = module.name
            value = of_link.get(name) or of_node.get(name)
            if value is not None:
                known[name] = value
        return awareness.context_class(known)

    def link_classes(self, session: str) -> Mapping[str, int]:
        """The classes of a session's link, by module."""
        return self._links.get(session, {})

    def leave(self, session: str) -> None:
        """Forget the link of a session that ended."""
        self._links.pop(session, None)

    def forget(self, node: str) -> None:
        """Forget the classes of a node."""
        self._attributes.pop(node, None)

    def in_force(self) -> Iterator[Classified]:
        """Yield all classes as inputs."""
        for session, classes in sorted(self._links.items()):
            node = session.partition("~")[0]
            for module, value in sorted(classes.items()):
                yield Classified(node, module, value, "" if session == node else session)
        for node, classes in sorted(self._attributes.items()):
            for module, value in sorted(classes.items()):
                yield Classified(node, module, value, attribute=True)

    def _text(self, node: str, name: str) -> str | None:
        value = self._context_of(node).get(name)
        return value if isinstance(value, str) else None
