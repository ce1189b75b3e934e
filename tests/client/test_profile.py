"""The profile file: private, whole, and never thrown away."""

import stat
from pathlib import Path

import pytest

from services.client.profile import FileFault, Profile, ProfileFile, new_seed_key

PROFILE = Profile("01a22a9f-491c-7e6b-abce-c3f11f09df89", "Ann", "s3cret", new_seed_key())


def test_a_profile_is_kept_for_its_owner_only(tmp_path: Path) -> None:
    """What was written is read back; folder and file are closed to others."""
    file = ProfileFile("ann", tmp_path / "home")
    assert file.read() is None
    file.write(PROFILE)
    assert file.read() == PROFILE
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    assert [p.name for p in file.path.parent.iterdir()] == ["ann.json"]


def test_a_profile_does_not_print_its_secrets() -> None:
    """Neither the account's secret nor the seed key appears in its text."""
    assert "s3cret" not in repr(PROFILE)
    assert repr(PROFILE.seed_key) not in repr(PROFILE)


def test_a_damaged_profile_is_named_and_left_alone(tmp_path: Path) -> None:
    """A file that cannot be read stops the command and stays as it is."""
    file = ProfileFile("ann", tmp_path)
    file.path.write_text('{"player_id": 1}', "utf-8")
    with pytest.raises(FileFault, match=r"ann\.json is damaged"):
        file.read()
    assert file.path.read_text("utf-8") == '{"player_id": 1}'


def test_a_profile_set_aside_is_still_there(tmp_path: Path) -> None:
    """A profile that this server does not know moves to a name of its own."""
    file = ProfileFile("ann", tmp_path)
    file.write(PROFILE)
    aside = file.set_aside(PROFILE)
    assert file.read() is None
    assert ProfileFile(aside.stem, tmp_path).read() == PROFILE
