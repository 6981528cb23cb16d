"""Vectors of roles and tasks: what matters to whom, for the atoms of one template (seed C, 7.2.1).

In JSON ``{"default": {"role": …, "task": …}, "roles": {ROLE: {TASK: vector}}}``; in XML RELEVANCE,
ROLE, TASK and RELEVANCE inside each other, one of the innermost with ``default="yes"``.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from nearcast.core.adaptation.errors import AdaptationError
from nearcast.core.adaptation.policy_xml import PolicyElements, vector_of
from nearcast.core.adaptation.relevance import Levels
from nearcast.core.model.errors import did_you_mean

MOST_LISTED = 20


class RoleVectors(Struct, frozen=True):
    """The vector of each role and task; the defaults are for who has no role or no task."""

    vectors: dict[str, dict[str, Levels]]
    """By role and task."""
    default_role: str | None = None
    default_task: str | None = None
    lines: dict[tuple[str, str], int] = {}
    """Where XML has the vector of a role and a task."""

    def vector(self, role: str | None, task: str | None) -> Levels:
        """Return the vector of a role and a task, the defaults for what is missing.

        Raises AdaptationError that lists the roles or tasks that there are.
        """
        role = self.default_role if role is None else role
        task = self.default_task if task is None else task
        if role is None:
            raise AdaptationError(f"There is no default role; {_known('role', self.vectors)}")
        tasks = self.vectors.get(role)
        if tasks is None:
            raise AdaptationError(_unknown("role", role, self.vectors))
        if task is None:
            raise AdaptationError(f"There is no default task; {_known('task', tasks)}")
        if task not in tasks:
            raise AdaptationError(_unknown("task", task, tasks, f" of role {role!r}"))
        return tasks[task]

    def labelled(self) -> Iterator[tuple[str, Levels]]:
        """Yield each vector with a text that says whose it is."""
        for role, tasks in self.vectors.items():
            for task, vector in tasks.items():
                line = self.lines.get((role, task))
                where = "" if line is None else f" (line {line})"
                yield f"role {role!r}, task {task!r}{where}", vector


def checked_roles(document: Mapping[str, object], levels: int) -> RoleVectors:
    """Read roles from the members of a JSON object; raise AdaptationError."""
    given = document.get("roles")
    unknown = sorted(set(document) - {"default", "roles"})
    if unknown or not isinstance(given, Mapping) or not given:
        problem = f"not {unknown[0][:40]!r}" if unknown else "and at least one role"
        raise AdaptationError(
            'Roles are {"default": {"role": ROLE, "task": TASK}, "roles": {ROLE: {TASK: vector}}}, '
            f"{problem}."
        )
    vectors: dict[str, dict[str, Levels]] = {}
    for role, tasks in given.items():
        if not isinstance(tasks, Mapping) or not tasks:
            raise AdaptationError(f"Role {role!r} has at least one task, each with a vector.")
        vectors[str(role)] = {
            str(task): _vector(vector, levels, f"Role {role!r}, task {task!r}")
            for task, vector in tasks.items()
        }
    return _checked(RoleVectors(vectors, *_defaults(document.get("default"), vectors)))


def roles_from_xml(document: PolicyElements, levels: int) -> RoleVectors:
    """Read roles from XML; raise AdaptationError with the line."""
    document.check(document.root, "RELEVANCE", ())
    vectors: dict[str, dict[str, Levels]] = {}
    lines: dict[tuple[str, str], int] = {}
    default: tuple[str, str] | None = None
    for role in document.children(document.root, "ROLE"):
        document.check(role, "ROLE", ("name",))
        role_name = role.attributes["name"]
        if role_name in vectors:
            raise document.error(f"There are two roles {role_name!r}.", role)
        tasks = vectors[role_name] = {}
        for task in document.children(role, "TASK"):
            document.check(task, "TASK", ("name",))
            name = task.attributes["name"]
            if name in tasks:
                raise document.error(f"Role {role_name!r} has two tasks {name!r}.", task)
            given = document.children(task, "RELEVANCE")
            if len(given) > 1:
                raise document.error("A TASK holds one RELEVANCE.", given[1])
            document.check(given[0], "RELEVANCE", ("value",), ("default",))
            tasks[name] = document.vector(given[0], levels)
            lines[role_name, name] = given[0].line
            chosen = given[0].attributes.get("default", "no")
            if chosen not in ("yes", "no"):
                raise document.error("default is yes or no.", given[0])
            if chosen == "yes" and default is not None:
                first = lines[default]
                raise document.error(
                    f"There is one default; the first is on line {first}.", given[0]
                )
            if chosen == "yes":
                default = role_name, name
    default_role, default_task = default or (None, None)
    return _checked(RoleVectors(vectors, default_role, default_task, lines))


def _vector(given: object, levels: int, where: str) -> Levels:
    try:
        return vector_of(given, levels)
    except AdaptationError as error:
        raise AdaptationError(f"{where}: {error}") from None


def _defaults(
    given: object, vectors: Mapping[str, Mapping[str, Levels]]
) -> tuple[str | None, str | None]:
    if given is None:
        return None, None
    if not isinstance(given, Mapping) or not set(given) <= {"role", "task"}:
        raise AdaptationError('The default of roles is {"role": ROLE, "task": TASK}.')
    role, task = given.get("role"), given.get("task")
    if role is not None and role not in vectors:
        raise AdaptationError("The default: " + _unknown("role", str(role), vectors))
    tasks: Iterable[str] = (
        vectors[role]
        if role is not None
        else dict.fromkeys(name for of_role in vectors.values() for name in of_role)
    )
    if task is not None and task not in tasks:
        of_role = "" if role is None else f" of role {role!r}"
        raise AdaptationError("The default: " + _unknown("task", str(task), tasks, of_role))
    return role, task


def _checked(found: RoleVectors) -> RoleVectors:
    check_lengths(found.labelled())
    return found


def check_lengths(labelled: Iterable[tuple[str, Levels]]) -> None:
    """Raise AdaptationError unless all vectors have one length: they are for one template."""
    first: tuple[str, Levels] | None = None
    for label, vector in labelled:
        if first is None:
            first = label, vector
        elif len(vector) != len(first[1]):
            raise AdaptationError(
                f"All vectors are for the atoms of one template: {first[0]} has {len(first[1])} "
                f"values, and {label} has {len(vector)}."
            )


def _unknown(what: str, name: str, known: Iterable[str], of: str = "") -> str:
    names = list(known)
    hint = did_you_mean(name, names)
    return f"There is no {what} {name[:40]!r}{of}; {_known(what, names).rstrip('.')}{hint or '.'}"


def _known(what: str, known: Iterable[str]) -> str:
    names = list(known)
    more = ", …" if len(names) > MOST_LISTED else ""
    listed = ", ".join(repr(each) for each in names[:MOST_LISTED])
    return f"the {what}s are {listed}{more}."
