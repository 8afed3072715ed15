"""Whole numbers in what is sent: exact, or refused, wherever they stand."""

from __future__ import annotations

import pytest

from api.wire import parse_json
from engine.errors import BadInput


@pytest.mark.parametrize("number", [2**53 + 1, 2**63, 2**64 - 1, -(2**63)])
def test_a_number_of_64_bits_is_taken_as_it_is(number: int) -> None:
    for pad in range(40):
        assert parse_json(b" " * pad + b'{"n":%d}' % number) == {"n": number}


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**25])
def test_a_longer_number_is_refused_at_any_place(number: int) -> None:
    for pad in range(40):
        with pytest.raises(BadInput, match="more than 64 bits"):
            parse_json(b" " * pad + b'{"n":%d}' % number)
