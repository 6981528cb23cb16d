"""Inputs that stay in force: kept by key until another ends them, and loaded at start.

Which inputs those are, and their keys, is declared beside their fields (`InputForm`).
"""

from nearcast.core.model.input_form import form_of_input, input_forms
from nearcast.core.model.inputs import Input
from nearcast.store.state.changes import Forgotten, Kept
from nearcast.store.state.values import encoded_input


def standing_change(value: Input) -> Kept | Forgotten:
    """Return the change that keeps an input in force, or that removes the one it ends."""
    form = form_of_input(value)
    if form.is_end(value):
        return standing_end(value)
    assert form.space is not None, f"a {form.kind} does not stand"
    return Kept(form.space, form.key_of(value), encoded_input(value))


def standing_end(value: Input) -> Forgotten:
    """Return the change that removes the value under the key of an input."""
    form = form_of_input(value)
    assert form.space is not None, f"a {form.kind} does not stand"
    return Forgotten(form.space, form.key_of(value))


def is_standing_space(space: str) -> bool:
    """True if a space holds inputs that stay in force."""
    return any(form.space == space for form in input_forms())
