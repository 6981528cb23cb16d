"""Rules: programs of equal filters, stored once and counted by the subscriptions that use them."""

import numpy as np

from nearcast.core.compiled import compiled
from nearcast.core.matching.tables import I32, NONE, AtomTable, RuleTable, enough, resized

FREE_RULE, RULES_MADE, RULES_USED, CODE_TOP, CODE_WASTED = 0, 1, 2, 3, 4


def new_rules() -> RuleTable:
    """Return an empty table."""
    state = np.zeros(5, np.int64)
    state[FREE_RULE] = NONE
    return RuleTable(
        start=np.zeros(16, np.int32),
        length=np.zeros(16, np.uint8),
        sections=np.zeros(16, np.uint8),
        flags=np.zeros(16, np.uint8),
        verdict=np.zeros(16, np.int8),
        stamp=np.full(16, NONE, np.int64),
        judged=np.full(16, NONE, np.int64),
        true=np.zeros(16, np.int64),
        false=np.zeros(16, np.int64),
        users=np.zeros(16, np.int32),
        code=np.zeros(64, np.int32),
        slots=np.full(64, NONE, np.int32),
        state=state,
    )


def with_room(rules: RuleTable, more: int, words: int) -> RuleTable:
    """Return the table with room for `more` rules and `words` words of code."""
    size = enough(len(rules.users), int(rules.state[RULES_MADE]) + more)
    if size != len(rules.users):
        stamp, judged = np.full((2, size), NONE, np.int64)
        stamp[: len(rules.stamp)] = rules.stamp
        judged[: len(rules.judged)] = rules.judged
        rules = rules._replace(
            start=resized(rules.start, size),
            length=resized(rules.length, size),
            sections=resized(rules.sections, size),
            flags=resized(rules.flags, size),
            verdict=resized(rules.verdict, size),
            stamp=stamp,
            judged=judged,
            true=resized(rules.true, size),
            false=resized(rules.false, size),
            users=resized(rules.users, size),
        )
    if 2 * int(rules.state[CODE_WASTED]) > int(rules.state[CODE_TOP]) > 4096:
        rules = rules._replace(code=_packed(rules))
    top = int(rules.state[CODE_TOP])
    if top + words > len(rules.code):
        rules = rules._replace(code=resized(rules.code, enough(len(rules.code), top + words)))
    wanted = 2 * (int(rules.state[RULES_USED]) + more)
    if wanted > len(rules.slots):
        slots = np.full(1 << int(wanted).bit_length(), NONE, np.int32)
        _rehash(rules, slots)
        rules = rules._replace(slots=slots)
    return rules


@compiled
def acquire_rules(
    code: I32,
    first: I32,
    length: I32,
    sections: I32,
    flags: I32,
    rules: RuleTable,
    atoms: AtomTable,
) -> I32:
    """Return the rule of each program, created if new, with its use count incremented.

    Program i is `code[first[i]]` to `code[first[i + 1] - 1]`. There must be room for all.
    """
    found = np.empty(len(length), np.int32)
    mask = len(rules.slots) - 1
    for i in range(len(length)):
        words = first[i + 1] - first[i]
        at = _hash(code, first[i], words) & mask
        rule = rules.slots[at]
        while rule != NONE:
            if (
                rules.length[rule] == length[i]
                and rules.sections[rule] == sections[i]
                and rules.flags[rule] == flags[i]
                and _same(rules, rule, code, first[i], words)
            ):
                break
            at = (at + 1) & mask
            rule = rules.slots[at]
        if rule == NONE:
            rule = rules.state[FREE_RULE]
            if rule == NONE:
                rule = rules.state[RULES_MADE]
                rules.state[RULES_MADE] += 1
            else:
                rules.state[FREE_RULE] = rules.start[rule]
            rules.state[RULES_USED] += 1
            rules.slots[at] = rule
            start = rules.state[CODE_TOP]
            rules.state[CODE_TOP] += words
            for j in range(words):
                rules.code[start + j] = code[first[i] + j]
            rules.start[rule] = start >> 1
            rules.length[rule] = length[i]
            rules.sections[rule] = sections[i]
            rules.flags[rule] = flags[i]
            rules.users[rule] = 0
            rules.stamp[rule] = rules.judged[rule] = NONE
            _count_atoms(rules, rule, atoms, 1)
        rules.users[rule] += 1
        found[i] = rule
    return found


@compiled
def release_rules(gone: I32, rules: RuleTable, atoms: AtomTable, freed: I32) -> int:
    """Decrement the use count of each rule; write freed rules to `freed`, return their number."""
    n = 0
    mask = len(rules.slots) - 1
    for i in range(len(gone)):
        rule = gone[i]
        rules.users[rule] -= 1
        if rules.users[rule] > 0:
            continue
        words = _words(rules, rule)
        hole = _hash(rules.code, 2 * rules.start[rule], words) & mask
        while rules.slots[hole] != rule:
            hole = (hole + 1) & mask
        at = hole
        while True:
            at = (at + 1) & mask
            other = rules.slots[at]
            if other == NONE:
                break
            home = _hash(rules.code, 2 * rules.start[other], _words(rules, other)) & mask
            if ((at - home) & mask) >= ((at - hole) & mask):
                rules.slots[hole] = other
                hole = at
        rules.slots[hole] = NONE
        _count_atoms(rules, rule, atoms, -1)
        rules.state[CODE_WASTED] += words
        rules.state[RULES_USED] -= 1
        freed[n] = rule
        n += 1
    return n


def give_back(rules: RuleTable, freed: I32) -> None:
    """Make freed rules reusable, after the caller has read their code."""
    for rule in freed:
        rules.start[rule] = rules.state[FREE_RULE]
        rules.state[FREE_RULE] = rule


def atoms_of(rules: RuleTable, rule: int) -> set[int]:
    """Return the atoms that a rule uses."""
    start, words = 2 * int(rules.start[rule]), _words(rules, rule)
    code = rules.code[start : start + words].reshape(-1, 2)
    found: set[int] = set()
    at, sections = 0, [int(rules.length[rule])]
    for _ in range(int(rules.sections[rule]) + 1):
        length = sections.pop()
        found.update(int(word) >> 2 for word in code[at : at + length, 0])
        at += length
        if at < len(code):
            sections.append(int(code[at, 0]))
            at += 1
    return found


@compiled
def _words(rules: RuleTable, rule: int) -> int:
    at = rules.start[rule] + rules.length[rule]
    for _ in range(rules.sections[rule]):
        at += 1 + rules.code[2 * at]
    return 2 * (at - rules.start[rule])


@compiled
def _count_atoms(rules: RuleTable, rule: int, atoms: AtomTable, by: int) -> None:
    at = rules.start[rule]
    length = int(rules.length[rule])
    for section in range(rules.sections[rule] + 1):
        for i in range(at, at + length):
            atoms.users[rules.code[2 * i] >> 2] += by
        at += length
        if section < rules.sections[rule]:
            length = rules.code[2 * at]
            at += 1


@compiled
def _hash(code: I32, start: int, words: int) -> int:
    h = np.uint64(words)
    for i in range(start, start + words):
        h = (h ^ np.uint64(code[i])) * np.uint64(0x9E3779B97F4A7C15)
        h ^= h >> np.uint64(29)
    return int(np.int64(h >> np.uint64(1)))


@compiled
def _same(rules: RuleTable, rule: int, code: I32, first: int, words: int) -> bool:
    if _words(rules, rule) != words:
        return False
    start = 2 * rules.start[rule]
    same = True
    for i in range(words):
        same = same and rules.code[start + i] == code[first + i]
    return same


@compiled
def _rehash(rules: RuleTable, slots: I32) -> None:
    mask = len(slots) - 1
    for i in range(len(rules.slots)):
        rule = rules.slots[i]
        if rule != NONE:
            at = _hash(rules.code, 2 * rules.start[rule], _words(rules, rule)) & mask
            while slots[at] != NONE:
                at = (at + 1) & mask
            slots[at] = rule


@compiled
def _packed(rules: RuleTable) -> I32:
    code = np.zeros(len(rules.code), np.int32)
    top = 0
    for i in range(len(rules.slots)):
        rule = rules.slots[i]
        if rule != NONE:
            words = _words(rules, rule)
            start = 2 * rules.start[rule]
            for j in range(words):
                code[top + j] = rules.code[start + j]
            rules.start[rule] = top >> 1
            top += words
    rules.state[CODE_TOP] = top
    rules.state[CODE_WASTED] = 0
    return code
