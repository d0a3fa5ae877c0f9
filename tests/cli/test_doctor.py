from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.cli import doctor
from penstock.cli.doctor import Check, Level

from .conftest import Run


def found(name: str) -> Check:
    return next(c for c in doctor.examine() if c.name == name)


@pytest.mark.parametrize(
    ("says", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25.0.1"', 25),
        ("bash: java: command not found", None),
    ],
)
def test_the_version_of_java_is_read(says: str, major: int | None) -> None:
    assert doctor.java_major(says) == major


def test_an_old_java_fails_with_what_to_install() -> None:
    check = doctor.java_check("java", 'openjdk version "11.0.2"')
    assert check.level is Level.FAIL
    assert "openjdk-17-jre-headless" in check.advice
    assert doctor.java_check("java", 'openjdk version "21.0.2"').level is Level.OK
    assert doctor.java_check("java", "").level is Level.FAIL


def test_a_wrong_java_home_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check = found("JAVA_HOME")
    assert check.level is Level.FAIL
    assert "has no bin/java" in check.found


def test_no_java_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert found("java").level is Level.FAIL


def test_a_directory_that_cannot_be_written_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    monkeypatch.chdir(tmp_path)

    def refuse(**_: object) -> object:
        raise PermissionError(13, "Permission denied", str(gone))

    monkeypatch.setattr(doctor.tempfile, "NamedTemporaryFile", refuse)
    check = found("run directory")
    assert check.level is Level.FAIL
    assert "Permission denied" in check.found


def test_a_host_name_that_does_not_resolve_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(host: str) -> str:
        raise OSError("unknown")

    monkeypatch.setattr(doctor.socket, "gethostbyname", fail)
    check = found("host name")
    assert check.level is Level.WARN
    assert "/etc/hosts" in check.advice


def test_little_memory_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "available_memory", lambda: 2 * doctor.GIB)
    assert found("memory").level is Level.WARN
    monkeypatch.setattr(doctor, "available_memory", lambda: doctor.GIB // 2)
    assert found("memory").level is Level.FAIL


def test_packages_are_checked_against_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "version", lambda name: "3.0.1")
    checks = {c.name: c for c in doctor.examine()}
    assert checks["pandas"].level is Level.FAIL
    assert checks["pandas"].advice == "pip install 'pandas>=2.2,<3'"
    assert checks["numpy"].level is Level.OK


def test_everything_not_well_says_what_to_do() -> None:
    assert all(c.advice for c in doctor.examine() if c.level is not Level.OK)


def test_doctor_exits_by_what_it_finds(penstock: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    good = doctor.Check("java", doctor.Level.OK, "17")
    bad = doctor.Check("memory", doctor.Level.FAIL, "too little", "buy some")
    monkeypatch.setattr(doctor, "examine", lambda: (good,))
    assert penstock("doctor")[0] == 0
    monkeypatch.setattr(doctor, "examine", lambda: (good, bad))
    code, out, _ = penstock("doctor")
    assert code == 1
    assert "buy some" in out
    code, out, _ = penstock("doctor", "--json")
    assert code == 1
    assert json.loads(out)["ok"] is False
