"""Faults on purpose in the processes of a stack: where they die, and which of their calls fails, loses its answer, is throttled or made twice.

The processes of test builds look into a folder for what is armed (shared/faults tells what each fault does). A site is the name of
a call: `plangate-authorize dynamodb.GetItem RUN#run`, `runner-apply s3.PutObject claims/ws/run`.
"""

import collections
import dataclasses
import json
import secrets

from patience import wait_until


@dataclasses.dataclass(frozen=True)
class Passage:
    """A call that was made: by which process, for which workspace and run (None where it names none), at which site."""

    process: str
    workspace: str | None
    run: str | None
    site: str


class Faults:
    """The folder of a stack."""

    def __init__(self, stack):
        self.folder = stack.directory / "faults"

    @staticmethod
    def prepare(stack):
        """Makes the folder: processes that start from now on look into it."""
        for part in ("armed", "hits", "open", "sites", "runs"):
            (stack.directory / "faults" / part).mkdir(parents=True, exist_ok=True)

    def arm(self, site, what, workspace=None, nth=1, times=1):
        """Arms a fault: `site` as it is called, or its beginning and `*`; `nth` counts the passages within one invocation. Gives its name."""
        name = secrets.token_hex(6)
        fault = {"workspace": workspace, "site": site, "nth": nth, "times": times, "what": what}
        fresh = self.folder / "armed" / f"{name}.new"
        fresh.write_text(json.dumps(fault))
        fresh.rename(fresh.with_suffix(".json"))
        return name

    def disarm(self, name):
        """What is not used up will not strike any more; what is held goes on."""
        (self.folder / "armed" / f"{name}.json").unlink(missing_ok=True)
        self.open(name)

    def hits(self, name):
        """The sites at which a fault has struck so far."""
        return [path.read_text().split("\n")[0] for path in sorted((self.folder / "hits").glob(f"{name}.*"))]

    def struck(self, name, times=1):
        """Waits until a fault has struck."""
        wait_until(lambda: len(self.hits(name)) >= times, f"the fault {name} to strike")

    def open(self, name):
        """Lets everything go on that a fault holds, now and later."""
        (self.folder / "open" / name).touch()

    def passages(self):
        """Every call that was made so far, the calls of one process in their order."""
        found = []
        for path in sorted((self.folder / "sites").iterdir()):
            for line in path.read_text().splitlines():
                workspace, run, site = (part if part != "-" else None for part in line.split("\t"))
                found.append(Passage(path.name.rpartition(".")[0], workspace, run, site))
        return found

    def sites(self, workspace):
        """How often each site was passed for a workspace."""
        return collections.Counter(passage.site for passage in self.passages() if passage.workspace == workspace)
