"""How secrets are stored: sealed for one owner, known again by a mark, and never shown."""

from __future__ import annotations

import pytest

from engine.codec.secrets import (
    StoredSecret,
    StoredSecrets,
    Vault,
    dump_secrets,
    load_secrets,
    vault_of,
)
from engine.config import Config
from engine.errors import Unusable

OLD, NEW = "o" * 32, "n" * 32
SECRET = bytes(range(32))
OWNER = "job:a@1"


def test_without_a_key_a_secret_is_stored_as_it_is() -> None:
    sealed = vault_of(None).seal(SECRET, OWNER)
    assert sealed == "plain:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
    assert vault_of(None).open(sealed, OWNER) == SECRET
    assert vault_of(NEW).open(sealed, OWNER) == SECRET


def test_with_a_key_nothing_of_a_secret_is_to_be_seen() -> None:
    vault = vault_of(NEW)
    first, second = vault.seal(SECRET, OWNER), vault.seal(SECRET, OWNER)
    assert first.startswith("aesgcm:")
    assert first != second
    assert "AAECAwQF" not in first
    assert vault.open(first, OWNER) == vault.open(second, OWNER) == SECRET


def test_what_an_older_key_has_sealed_is_opened_and_the_newest_seals() -> None:
    sealed = vault_of(OLD).seal(SECRET, OWNER)
    both = vault_of(f"{NEW}, {OLD}")
    assert both.open(sealed, OWNER) == SECRET
    assert vault_of(NEW).open(both.seal(SECRET, OWNER), OWNER) == SECRET


@pytest.mark.parametrize(
    ("keys", "owner", "has"),
    [(None, OWNER, "no key"), (NEW, OWNER, "other keys"), (OLD, "job:b@1", "other keys")],
)
def test_what_no_key_opens_for_its_owner_is_told(keys: str | None, owner: str, has: str) -> None:
    sealed = vault_of(OLD).seal(SECRET, OWNER)
    with pytest.raises(Unusable, match=has) as refused:
        vault_of(keys).open(sealed, owner)
    assert "WATERCLOCK_SECRET_KEY" in refused.value.message
    assert sealed not in refused.value.message


def test_a_secret_is_known_again_under_any_key_and_by_nobody_without_one() -> None:
    under_old, usual = Vault([OLD]).marks(SECRET, b"usual")
    assert Vault([NEW, OLD]).marks(SECRET, b"usual")[1:] == [under_old, usual]
    assert Vault([]).marks(SECRET, b"usual") == [usual]
    assert usual not in Vault([]).marks(SECRET, b"other")
    assert usual not in Vault([]).marks(bytes(32), b"usual")


def test_what_is_stored_reads_back_and_its_repr_hides_it() -> None:
    held = StoredSecrets(7, (StoredSecret("sec_1", 8, None, "plain:x", "beef"),))
    assert load_secrets(dump_secrets(held)) == held
    assert "plain:x" not in repr(held)
    assert "beef" not in repr(held)


def test_the_setting_is_checked_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATERCLOCK_SECRET_KEY", f"{NEW},{OLD}")
    config = Config.from_env()
    assert config.secret_key is not None
    assert config.secret_key.get_secret_value() == f"{NEW},{OLD}"
    assert NEW not in repr(config)
    assert NEW not in config.model_dump_json()
    for wrong in ("hunter2", f"{NEW},hunter2", f"{NEW},"):
        monkeypatch.setenv("WATERCLOCK_SECRET_KEY", wrong)
        with pytest.raises(Unusable, match=r"WATERCLOCK_SECRET_KEY.*32 characters") as refused:
            Config.from_env()
        assert "hunter2" not in refused.value.message
