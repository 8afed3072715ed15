"""Settings: from the environment, checked once, and named when they are wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.config import Config
from engine.errors import Unusable


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("WATERCLOCK_")]:
        monkeypatch.delenv(name)


def test_without_settings_the_defaults_are_fit() -> None:
    assert Config.from_env() == Config()


def test_a_variable_sets_the_field_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATERCLOCK_TICK_MS", "20")
    assert Config.from_env().tick_ms == 20


def test_what_is_given_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATERCLOCK_SHARDS", "4")
    assert Config.from_env(shards=8).shards == 8
    assert Config.from_env(shards=None).shards == 4


def test_every_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATERCLOCK_SHARDS", "0")
    monkeypatch.setenv("WATERCLOCK_BATCH", "many")
    with pytest.raises(Unusable) as refusal:
        Config.from_env()
    assert "WATERCLOCK_SHARDS" in refusal.value.message
    assert "WATERCLOCK_BATCH" in refusal.value.message


def test_a_refusal_does_not_repeat_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be a password that went into the wrong variable."""
    monkeypatch.setenv("WATERCLOCK_PORT", "hunter2")
    with pytest.raises(Unusable) as refusal:
        Config.from_env()
    assert "hunter2" not in refusal.value.message


def test_a_lease_shorter_than_a_few_ticks_is_refused() -> None:
    with pytest.raises(Unusable, match=r"^settings: lease_ttl_ms must be .* six times tick_ms"):
        Config.from_env(lease_ttl_ms=300, tick_ms=51)
    assert Config.from_env(lease_ttl_ms=306, tick_ms=51).lease_ttl_ms == 306


def test_every_setting_says_what_it_is_for() -> None:
    assert [name for name, field in Config.model_fields.items() if not field.description] == []


@pytest.mark.parametrize("name", ["allow_networks", "allow_hosts"])
def test_what_may_be_called_is_read_at_the_start(name: str) -> None:
    with pytest.raises(
        Unusable, match=f"^settings: WATERCLOCK_{name.upper()}: each item must be"
    ) as refusal:
        Config.from_env(**{name: "hunter 2"})
    assert "hunter" not in refusal.value.message
    guard = Config.from_env(allow_networks="127.0.0.1/32", allow_hosts="db:6379").guard()
    assert guard.why_not("a.example", 80, "127.0.0.1") is None
    assert guard.why_not("db", 6379, "10.0.0.1") is None


def test_a_key_is_in_no_repr_and_is_read_from_a_file_first(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("wck_file\n")
    config = Config.from_env(api_key="wck_variable")
    assert "wck_" not in repr(config)
    assert config.read_api_key() == "wck_variable"
    assert Config.from_env(api_key="wck_variable", api_key_file=file).read_api_key() == "wck_file"
    assert Config.from_env().read_api_key() is None


@pytest.mark.parametrize("data", [None, b"\xff"])
def test_a_key_file_that_cannot_be_read_is_named(tmp_path: Path, data: bytes | None) -> None:
    file = tmp_path / "key"
    if data is not None:
        file.write_bytes(data)
    with pytest.raises(Unusable, match=str(file)):
        Config.from_env(api_key_file=file).read_api_key()
