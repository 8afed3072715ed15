"""`waterclock openapi` prints what a server serves."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from api.openapi import document
from engine.cli import main


@pytest.mark.parametrize("asks_for_keys", [True, False])
def test_the_description_is_printed_as_it_is_served(asks_for_keys: bool) -> None:
    options = [] if asks_for_keys else ["--without-keys"]
    ran = CliRunner().invoke(main, ["openapi", *options])
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.output) == document(asks_for_keys=asks_for_keys)
