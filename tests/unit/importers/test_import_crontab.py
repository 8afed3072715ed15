"""Crontabs in the frame of the importers: the same jobs as `jobs import crontab`, with notes."""

from __future__ import annotations

import pytest
from reading import SAMPLES, noted, only, read

from engine.errors import BadInput

URL = "https://example.com/run"


@pytest.mark.parametrize("more", [{}, {"url": URL, "shell": True}])
def test_a_crontab_needs_one_way_to_run_its_commands(more: dict[str, object]) -> None:
    with pytest.raises(BadInput, match="either --url or --shell"):
        read("crontab", "0 5 * * * a\n", **more)


def test_a_line_is_a_job_with_the_id_that_it_always_has() -> None:
    text = "MAILTO=ops\nCRON_TZ=Asia/Tokyo\n-0 5 * * * /bin/cat %a\n"
    draft = only(read("crontab", text, shell=True, filename="/etc/crontab", prefix="old."))
    assert draft.job_id.startswith("old.crontab-cat-")
    assert draft.body == {
        "job_id": draft.job_id,
        "schedule_expr": "0 5 * * *",
        "dialect": "vixie",
        "timezone": "Asia/Tokyo",
        "target": {
            "type": "shell",
            "command": "/bin/cat ",
            "env": {"MAILTO": "ops", "CRON_TZ": "Asia/Tokyo"},
            "stdin": "a\n",
        },
    }
    assert noted(draft).keys() == {"line", "MAILTO"}
    assert draft.place == "line 3"


def test_every_line_of_the_sample_is_taken_or_refused() -> None:
    text = (SAMPLES.parent / "crontab.sample").read_text()
    found = read("crontab", text, url=URL)
    lines = [line.strip() for line in text.splitlines()]
    jobs = sum(bool(line) and line[0] in "0123456789*@" for line in lines)
    assert len(found.drafts) + len(found.refusals) == jobs
    assert len(found.drafts) > 15
