"""The interpreter of scripts: Starlark, with what a script may do and nothing else.

A script is parsed and run once, and frozen: its calls share nothing but the state that is passed to
them. Runs in a process of its own, since some sources break the interpreter, and since nothing here
limits memory.
"""

import re
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

import msgspec
import starlark
from msgspec import Struct

from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.geodesy import distance_m
from nearcast.core.model.geometry.position import position_from_json
from nearcast.placement.errors import ScriptError
from nearcast.placement.limits import (
    BROKE,
    CALL_EVENTS,
    CALL_OUTPUT_BYTES,
    CALL_QUESTIONS,
    CALL_S,
    CALL_STEPS,
    CALLS_DEEP,
    STATE_BYTES,
)
from nearcast.placement.worker_messages import CallDone, PublishedOutput, ScriptCall

FUNCTIONS = ("on_event", "run", "aggregability")
OPTIONS = ("at", "to", "valid", "object", "priority", "deadline", "people", "time", "id")
STEPS_A_CHECK = 1_000
_CALLER = """
def nearcast_call_{0}(nearcast_argument, nearcast_state):
    nearcast_argument, nearcast_state = json.decode(nearcast_argument), json.decode(nearcast_state)
    {0}(nearcast_argument, nearcast_state)
    return json.encode(nearcast_state)
"""
_NEED_CALLER = """
def nearcast_call_{0}(nearcast_argument, nearcast_state):
    nearcast_argument = json.decode(nearcast_argument)
    return json.encode({{"need": {0}(nearcast_argument[0], nearcast_argument[1])}})
"""
_ARGUMENTS = (None, None)
MANY_ARGUMENTS = 100
_EXTRA = re.compile(r"Found ([0-9]+) extra positional argument")
_PLACE = re.compile(r"(?:-->|\*) script:([0-9]+)")
_OUT_OF_MEMORY = "out of memory"
LONGEST_PROBLEM = 500

AskContext = Callable[[str], bytes]
"""Returns the context of a node as JSON, empty if there is none to be seen."""


class Program(Struct, frozen=True):
    """A script that is ready to be called."""

    functions: tuple[str, ...]
    module: starlark.FrozenModule


class Sandbox:
    """Runs scripts, one call at a time."""

    def __init__(
        self, ask_context: AskContext, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask_context = ask_context
        self._clock = clock
        self._dialect = starlark.Dialect.extended()
        self._dialect.enable_load = False
        self._dialect.enable_top_level_stmt = True
        self._dialect.enable_f_strings = True
        self._globals = starlark.Globals.extended_by(
            [
                starlark.LibraryExtension.Json,
                starlark.LibraryExtension.Map,
                starlark.LibraryExtension.Filter,
                starlark.LibraryExtension.StructType,
            ]
        )
        self.is_broken = False
        """The interpreter ran out of memory, or lost its way: it is not to be used any more."""
        self._begin()

    def load(self, source: str) -> Program:
        """Return a script that is ready to be called; raises `ScriptError`."""
        self._begin()
        self._is_loading = True
        try:
            functions = self._defined(source)
            module = self._module()
            text = source + "".join("\n" + _caller(name) for name in functions)
            ast = starlark.parse("script", text, self._dialect)
            starlark.eval_with(self._options(), module, ast, self._globals)
            return Program(functions, module.freeze())
        except BaseException as error:
            raise ScriptError(self._problem(error)) from None
        finally:
            self._is_loading = False

    def call(self, program: Program, call: ScriptCall, state: bytes) -> CallDone:
        """Call a function of a script; the state is a JSON object."""
        self._begin()
        if call.function not in program.functions:
            return CallDone(problem=f"the script has no function {call.function}")
        try:
            arguments = call.argument.decode(), state.decode()
            name = f"nearcast_call_{call.function}"
            found = program.module.call_with(self._options(), name, *arguments).value
        except BaseException as error:
            return CallDone(problem=self._problem(error))
        assert isinstance(found, str)
        after = found.encode()
        if len(after) > STATE_BYTES:
            why = f"the state has {len(after)} bytes as JSON; at most {STATE_BYTES} are kept"
            return CallDone(problem=why)
        return CallDone(None if after == state else after, tuple(self._outputs))

    def _begin(self) -> None:
        self._steps = 0
        self._ends_at = self._clock() + CALL_S
        self._stopped_for = ""
        self._is_loading = False
        self._outputs: list[PublishedOutput] = []
        self._output_bytes = 0
        self._contexts: dict[str, object] = {}

    def _defined(self, source: str) -> tuple[str, ...]:
        """Run a script once by itself, and return which of the known functions it defines."""
        module = self._module()
        ast = starlark.parse("script", source, self._dialect)
        starlark.eval_with(self._options(), module, ast, self._globals)
        frozen = module.freeze()
        found = tuple(name for name in FUNCTIONS if _is_defined(frozen, name, self._options()))
        if not found:
            raise ScriptError("define on_event(event, state) or run(args, state)")
        return found

    def _module(self) -> starlark.Module:
        module = starlark.Module()
        module.add_callable("publish", self._publish)
        module.add_callable("context", self._context)
        module.add_callable("distance", self._distance)
        module.add_callable("seconds", self._seconds)
        return module

    def _options(self) -> starlark.EvalOptions:
        return starlark.EvalOptions(check_cancelled=self._must_stop, max_callstack_size=CALLS_DEEP)

    def _must_stop(self) -> bool:
        self._steps += STEPS_A_CHECK
        if self._steps >= CALL_STEPS:
            self._stopped_for = f"it took more than {CALL_STEPS} steps"
        elif self._clock() >= self._ends_at:
            self._stopped_for = f"it took longer than {CALL_S:g} s"
        return bool(self._stopped_for)

    # What scripts call

    def _publish(
        self,
        subject: object,
        payload: object = None,
        *more: object,
        qos: object = 1,
        retain: object = False,
        **options: object,
    ) -> None:
        if self._is_loading:
            raise ScriptError("publish: only on_event and run can publish")
        if more:
            raise ScriptError(
                "publish takes a subject and a payload; the rest by name, such as to="
            )
        if not isinstance(subject, str) or not subject:
            raise ScriptError("publish: the subject is a text such as 'alarm/fence'")
        if type(qos) is not int or qos not in (0, 1, 2):
            raise ScriptError(f"publish: qos is 0, 1 or 2, not {qos!r}")
        if not isinstance(retain, bool):
            raise ScriptError(f"publish: retain is True or False, not {retain!r}")
        for name in options:
            if name not in OPTIONS:
                known = ", ".join((*OPTIONS, "qos", "retain"))
                raise ScriptError(f"publish: unknown {name}; there are {known}")
        given = {name: value for name, value in options.items() if value is not None}
        output = PublishedOutput(
            subject, _payload(payload), msgspec.json.encode(given), qos, retain
        )
        self._output_bytes += len(subject.encode()) + len(output.payload) + len(output.options)
        if len(self._outputs) >= CALL_EVENTS:
            raise ScriptError(f"publish: a call publishes at most {CALL_EVENTS} events")
        if self._output_bytes > CALL_OUTPUT_BYTES:
            raise ScriptError(f"publish: a call publishes at most {CALL_OUTPUT_BYTES} bytes")
        self._outputs.append(output)

    def _context(self, node: object) -> object:
        if self._is_loading:
            raise ScriptError("context: only on_event and run can read contexts")
        if not isinstance(node, str):
            raise ScriptError(f"context: a node's name is text, not {node!r}")
        if node not in self._contexts:
            if len(self._contexts) >= CALL_QUESTIONS:
                raise ScriptError(f"context: a call reads at most {CALL_QUESTIONS} contexts")
            found = self._ask_context(node)
            self._contexts[node] = msgspec.json.decode(found) if found else None
        return self._contexts[node]

    def _distance(self, first: object, second: object) -> float | None:
        if first is None or second is None:
            return None
        try:
            one, other = position_from_json(first), position_from_json(second)
        except ModelError as error:
            raise ScriptError(f"distance: {error}") from None
        return distance_m(one.lat, one.lon, other.lat, other.lon)

    def _seconds(self, text: object) -> float:
        if isinstance(text, str):
            with suppress(ValueError):
                at = datetime.fromisoformat(text)
                if at.tzinfo is not None:
                    return at.timestamp()
        raise ScriptError(f"seconds: a time such as 2026-11-15T14:30:00Z is needed, not {text!r}")

    def _problem(self, error: BaseException) -> str:
        """Return the text of an error, with its line."""
        if not isinstance(error, Exception) or _OUT_OF_MEMORY in str(error):
            self.is_broken = True
            return BROKE
        if self._stopped_for:
            return self._stopped_for
        text = str(error) or type(error).__name__
        places = _PLACE.findall(text)
        lines = [line for line in text.splitlines() if line.startswith("error:")]
        what = lines[-1].removeprefix("error:").strip() if lines else _last_line(text)
        what = what.removeprefix("ScriptError: ").removeprefix("fail: ")
        where = f"line {places[-1]}: " if places else ""
        return f"{where}{what}"[:LONGEST_PROBLEM]


def _caller(name: str) -> str:
    caller = _NEED_CALLER if name == "aggregability" else _CALLER
    return caller.format(name)


def _is_defined(module: starlark.FrozenModule, name: str, options: starlark.EvalOptions) -> bool:
    """Whether a module defines a function: calling it without arguments says so."""
    try:
        module.call_with(options, name)
    except starlark.StarlarkError as error:
        text = str(error)
        if "has no symbol" in text:
            return False
        if "Missing parameter" in text and _takes_two(module, name, options):
            return True
    raise ScriptError(f"{name} is a function of two arguments: define {_SIGNATURES[name]}")


def _takes_two(module: starlark.FrozenModule, name: str, options: starlark.EvalOptions) -> bool:
    """Whether a function can be called with two arguments; one that takes just two is not run."""
    most = MANY_ARGUMENTS - _extra_arguments(module, name, options, MANY_ARGUMENTS)
    if most <= len(_ARGUMENTS):
        return most == len(_ARGUMENTS)
    try:
        module.call_with(options, name, *_ARGUMENTS)
    except starlark.StarlarkError as error:
        text = str(error)
        return not any(each in text for each in ("Missing ", "extra positional"))
    return True


def _extra_arguments(
    module: starlark.FrozenModule, name: str, options: starlark.EvalOptions, count: int
) -> int:
    """Return how many of so many arguments are too many."""
    try:
        module.call_with(options, name, *[None] * count)
    except starlark.StarlarkError as error:
        found = _EXTRA.search(str(error))
        return 0 if found is None else int(found[1])
    return 0


_SIGNATURES = {
    "on_event": "on_event(event, state)",
    "run": "run(args, state)",
    "aggregability": "aggregability(me, other)",
}


def _payload(payload: object) -> bytes:
    if payload is None:
        return b""
    if isinstance(payload, str):
        return payload.encode()
    try:
        return msgspec.json.encode(payload)
    except (TypeError, ValueError, RecursionError) as error:
        raise ScriptError(f"publish: the payload is no JSON: {error}") from None


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
