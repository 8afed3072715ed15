"""What the API takes about many jobs: the search in them, and what is done to a group."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from api.rules import Group, Instant, PageLimit, Prefix, Queue, Tags, whole_number
from api.schemas import PauseJob, ResumeJob
from api.schemas_depends import DeleteJob
from api.taken import Taken
from engine.access import Caller
from engine.model import JobState
from engine.store.group_changes import STEP
from engine.store.search import Search


class ListJobs(Taken):
    """The query of `GET /v1/jobs`: which jobs, and where the page begins."""

    limit: PageLimit = 100
    after: Prefix = ""
    prefix: Prefix = ""
    group: Group | None = None
    tag: Tags = []
    """May be given several times: a job must have all of them."""
    state: Literal["active", "paused", "completed"] | None = None
    queue: Queue | None = None
    due_after: Instant | None = None
    """An active job is due next at this time or later."""
    due_before: Instant | None = None
    """An active job is due next before this time."""

    def to_search(self, caller: Caller) -> Search:
        """Return the search, in what is there for the caller."""
        groups = caller.groups
        if self.group is not None:
            groups = frozenset({self.group} if caller.sees(self.group) else ())
        return Search(
            prefix=self.prefix,
            groups=groups,
            keeps_to_groups=caller.groups is not None,
            tags=tuple(self.tag),
            state=None if self.state is None else JobState(self.state),
            queue=self.queue,
            due_from=self.due_after,
            due_until=None if self.due_before is None else self.due_before - 1,
        )


class ListGroups(Taken):
    """The query of `GET /v1/groups`."""

    limit: PageLimit = 100
    after: Group | Literal[""] = ""


_StepLimit = Annotated[int, Field(ge=1, le=STEP)]


class PauseGroup(PauseJob):
    """The body of `POST /v1/groups/{group}/pause`, which need not be sent."""

    limit: _StepLimit = STEP
    """Jobs that this step looks at."""
    after: Prefix = ""
    """The `next` of the step before."""


class ResumeGroup(ResumeJob):
    """The body of `POST /v1/groups/{group}/resume`, which need not be sent."""

    limit: _StepLimit = STEP
    """Jobs that this step looks at."""
    after: Prefix = ""
    """The `next` of the step before."""


class DeleteGroup(DeleteJob):
    """The query of `DELETE /v1/groups/{group}`."""

    limit: Annotated[int, Field(ge=1, le=STEP), BeforeValidator(whole_number)] = STEP
    """Jobs that this step looks at."""
    after: Prefix = ""
    """The `next` of the step before."""
