"""The vocabulary: names that are allowed, execution ids, and the table of states."""

from __future__ import annotations

import pytest

from engine.errors import BadInput
from engine.execution import Delivery
from engine.model import ALLOWED_IN, JobState, Operation
from engine.names import check_job_id, check_queue, execution_id, split_execution_id

NAMES = ["a", "A9", "nightly.report_v2-x", "0"]
NO_NAMES = ["", "-a", ".a", "a b", "a{b}", "a@b", "a/b", "a\n", "ä", "a|b", "a\x00"]


@pytest.mark.parametrize("text", [*NAMES, "ns:job", "a" * 128])
def test_a_job_id_of_the_grammar_is_returned(text: str) -> None:
    assert check_job_id(text) == text


@pytest.mark.parametrize("text", [*NO_NAMES, ":a", "a" * 129])
def test_another_job_id_is_refused_naming_the_field(text: str) -> None:
    with pytest.raises(BadInput, match="a job id is") as refusal:
        check_job_id(text)
    assert refusal.value.field == "job_id"


@pytest.mark.parametrize("text", [*NAMES, "a" * 64])
def test_a_queue_of_the_grammar_is_returned(text: str) -> None:
    assert check_queue(text) == text


@pytest.mark.parametrize("text", [*NO_NAMES, "a:b", "a" * 65])
def test_another_queue_is_refused_naming_the_field(text: str) -> None:
    with pytest.raises(BadInput, match="a queue name is") as refusal:
        check_queue(text)
    assert refusal.value.field == "queue"


def test_an_execution_id_comes_apart_as_it_was_put_together() -> None:
    assert execution_id("ns:a", 1_800_000_000_000) == "ns:a@1800000000000"
    assert split_execution_id("ns:a@1800000000000") == ("ns:a", 1_800_000_000_000)


@pytest.mark.parametrize(
    "text", ["", "a", "a@", "@1", "a@-1", "a@1.5", "a@1@2", "a@١", "a@1\n", "a@" + "1" * 16]
)
def test_what_is_no_execution_id_is_refused(text: str) -> None:
    with pytest.raises(BadInput) as refusal:
        split_execution_id(text)
    assert refusal.value.field == "execution_id"


def test_a_delivery_knows_its_job_and_nominal_time() -> None:
    delivery = Delivery(0, "q", "1-0", "w", 1, "ns:a@17", 1, 17, b"", b"", b"")
    assert (delivery.job_id, delivery.nominal_at) == ("ns:a", 17)


def test_every_operation_says_in_which_states_it_is_allowed() -> None:
    assert ALLOWED_IN.keys() == set(Operation)
    assert all(states and states <= set(JobState) for states in ALLOWED_IN.values())
