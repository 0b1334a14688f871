"""The calls of AWS that were made for a run, as the layer around the SDK's connections noted them (shared/faults).

What counts is what the gate does for a run between its proposal and its end: the functions, the archive of its events, the messages
about it, and the runner. The engine's own calls are the engine's, and what somebody asks the API who only looks is theirs.
"""

import collections
import dataclasses

# The schedules look at all runs; what they do is not one run's.
SCHEDULED = {"plangate-sweep", "plangate-witness", "plangate-drift"}
# These follow the streams of the tables: an object in the archive for each event, an announcement for each change of status, messages.
FOLLOWERS = {"plangate-archive", "plangate-announce", "plangate-notify"}


@dataclasses.dataclass(frozen=True)
class Call:
    """A call that was answered, with the bytes of its body and of the answer's."""

    process: str
    run: str | None
    site: str
    sent: int
    received: int

    @property
    def service(self):
        return self.site.split(".")[0]

    @property
    def operation(self):
        return self.site.split(" ")[0]


class Calls:
    """The calls of a stack from now on. Make it before the first function starts: processes look for the folder as they begin."""

    def __init__(self, faults):
        self.folder = faults.folder / "moved"
        self.folder.mkdir(exist_ok=True)
        self._seen = {}

    def forget(self):
        """Looks away from all that was so far."""
        self._seen = {path.name: path.stat().st_size for path in self.folder.iterdir()}

    def of(self, run, workspace_calls=("plangate-api", "plangate-archive")):
        """The calls for a run since `forget`: those that name it, and of the functions in `workspace_calls` those that name no other run:
        who somebody is, and what stands in the workspace's ledger."""
        found = []
        for path in sorted(self.folder.iterdir()):
            process = path.name.rpartition(".")[0]
            if process in SCHEDULED:
                continue
            with path.open() as file:
                file.seek(self._seen.get(path.name, 0))
                for line in file:
                    whose, site, sent, received = line.rstrip("\n").split("\t")
                    call = Call(process, None if whose == "-" else whose, site, int(sent), int(received))
                    if call.run == run or (call.run is None and process in workspace_calls):
                        found.append(call)
        return found


def by_group(calls):
    """The calls of the functions, of the runner, and of what follows the streams."""
    group = lambda call: "followers" if call.process in FOLLOWERS else "runner" if call.process.startswith("runner") else "functions"  # noqa: E731
    return collections.Counter(map(group, calls))


def by_service(calls):
    """How often each service was called, the most first."""
    return collections.Counter(call.service for call in calls).most_common()


def by_process(calls):
    """The sites that each process passed, in their order."""
    found = collections.defaultdict(list)
    for call in calls:
        found[call.process].append(call.site)
    return dict(found)
