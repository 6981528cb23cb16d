"""Finding Java: what is set comes first, what is too old is named, and nothing is guessed."""

from pathlib import Path

import pytest

from nearcast.pipeline.errors import JavaError
from nearcast.pipeline.jobs import java
from nearcast.pipeline.jobs.java import Java, find_java, version_of


def install(home: Path, told: str, code: int = 0) -> Path:
    """Put a program in place that answers as a Java does."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{told}' >&2\nexit {code}\n")
    program.chmod(0o755)
    return home


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java, whose usual place is a directory."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    monkeypatch.setattr(java, "USUAL_PLACES", (f"{tmp_path}/jvm/*",))
    return tmp_path


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("the operation could not be completed", None),
    ],
)
def test_a_version_is_read_from_what_java_says(
    tmp_path: Path, told: str, version: int | None
) -> None:
    assert version_of(install(tmp_path / "java", told)) == version


def test_a_java_that_fails_is_none(tmp_path: Path) -> None:
    assert version_of(install(tmp_path / "java", 'openjdk version "17"', code=1)) is None
    assert version_of(tmp_path / "not-there") is None


def test_java_home_comes_first(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(nowhere / "jvm" / "java-21", 'openjdk version "21"')
    chosen = install(nowhere / "mine", 'openjdk version "17.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(chosen))
    assert find_java() == Java(chosen, 17)


def test_the_path_comes_before_the_usual_places(nowhere: Path) -> None:
    install(nowhere / "jvm" / "java-17", 'openjdk version "17.0.1"')
    on_path = install(nowhere / "elsewhere", 'openjdk version "21.0.1"')
    (nowhere / "programs").mkdir()
    (nowhere / "programs" / "java").symlink_to(on_path / "bin" / "java")
    assert find_java() == Java(on_path, 21)


def test_one_of_the_usual_places_is_found_and_one_too_old_passed_over(nowhere: Path) -> None:
    install(nowhere / "jvm" / "java-11", 'openjdk version "11.0.1"')
    good = install(nowhere / "jvm" / "java-17", 'openjdk version "17.0.1"')
    assert find_java() == Java(good, 17)


def test_without_java_the_error_says_what_to_install(nowhere: Path) -> None:
    with pytest.raises(JavaError, match=r"none was found; install Java 17 or 21 .*JAVA_HOME"):
        find_java()


def test_only_an_old_java_is_an_error_that_names_it(nowhere: Path) -> None:
    install(nowhere / "jvm" / "java-8", 'java version "1.8.0_402"')
    with pytest.raises(JavaError, match=r"17 or newer, and there is only Java 8 in .*java-8; inst"):
        find_java()


def test_a_java_home_of_no_use_is_an_error_even_if_there_is_another(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(nowhere / "jvm" / "java-17", 'openjdk version "17.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(nowhere / "gone"))
    with pytest.raises(JavaError, match=r"JAVA_HOME is .*gone, where no Java is"):
        find_java()
    monkeypatch.setenv("JAVA_HOME", str(install(nowhere / "old", 'java version "1.8.0"')))
    with pytest.raises(JavaError, match=r"JAVA_HOME is .*old, which is Java 8; Spark needs 17"):
        find_java()
