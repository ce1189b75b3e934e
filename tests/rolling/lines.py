"""What replicas wrote into their logs, as far as it says how a restart went."""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Lines:
    """Calls answered UNAVAILABLE by method and reason, warnings by event, errors in full."""

    unavailable: Counter[str] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)

    def add(self, other: "Lines") -> None:
        """Take up those of another replica."""
        self.unavailable += other.unavailable
        self.warnings += other.warnings
        self.errors += other.errors


def lines_of(log: Path) -> Lines:
    """What a replica's log says; a line that is none of ours is an error."""
    found = Lines()
    for line in log.read_text("utf-8", "replace").splitlines():
        try:
            told = json.loads(line)
            event, level = str(told["event"]), str(told["level"])
        except (ValueError, KeyError, TypeError):
            found.errors.append(line)
            continue
        if event == "rpc" and told.get("code") == "UNAVAILABLE":
            method = str(told["method"]).rpartition("/")[2]
            found.unavailable[f"{method} {told.get('reason')}"] += 1
        elif level == "warning":
            found.warnings[f"{event} {told.get('reason') or ''}".strip()] += 1
        elif level in ("error", "critical"):
            found.errors.append(line)
    return found
