"""What the handlers of a run recorded: which jobs ran, when, and how late."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.peers.contract import RECORD, Jobs


def count_records(folder: Path) -> int:
    """Return how many records are written."""
    return sum(file.stat().st_size for file in folder.glob("*.records")) // RECORD.size


def count_ready(folder: Path) -> int:
    """Return how many processes work."""
    return len(list(folder.glob("*.ready")))


def ready_s(folder: Path) -> float:
    """Return when the first process said that it works."""
    return min(file.stat().st_mtime for file in folder.glob("*.ready"))


@dataclass(frozen=True, slots=True)
class Records:
    """What ran: number of the job and time in seconds, in order of time."""

    ran: list[tuple[int, float]]

    @classmethod
    def read(cls, folder: Path) -> Records:
        """Return what is written."""
        written = [file.read_bytes() for file in folder.glob("*.records")]
        whole = (each[: len(each) // RECORD.size * RECORD.size] for each in written)
        ran = [record for each in whole for record in RECORD.iter_unpack(each)]
        return cls(sorted(ran, key=lambda record: record[1]))

    def first_s(self) -> float:
        """Return when the first handler began."""
        return self.ran[0][1]

    def last_s(self) -> float:
        """Return when the last handler began."""
        return self.ran[-1][1]

    def count(self, jobs: Jobs) -> dict[str, float]:
        """Return how many handlers ran `executed`, how many of these again (`doubled`), and how
        many jobs did not run (`lost`)."""
        distinct = len({number for number, _ in self.ran})
        executed = len(self.ran)
        return {
            "executed": executed, "doubled": executed - distinct, "lost": jobs.count - distinct
        }  # fmt: skip

    def lags_ms(self, jobs: Jobs) -> list[float]:
        """Return how late each handler began, the least late first."""
        return sorted(at * 1000 - jobs.due_ms(number) for number, at in self.ran)


def percentile(ordered: list[float], part: float) -> float:
    """Return the value below which that part of an ordered list lies."""
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]
