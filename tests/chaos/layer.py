"""The fault layer of test builds, from outside: a folder of armed faults, of strikes, and of the calls that were passed."""

import collections
import json


class Layer:
    """The layer of one stack. Its folders must be there before the first function starts."""

    def __init__(self, stack):
        self._folder, self._armed = stack.directory / "faults", 0
        for name in ("", "armed", "hits", "open", "sites", "runs"):
            (self._folder / name).mkdir(exist_ok=True)
            (self._folder / name).chmod(0o777)

    def arm(self, process, site, what, nth=1, times=1, workspace=None):
        """Arms a fault at calls of a process: `site` is a whole name, or the beginning of names if it ends in `*`. Gives its name."""
        self._armed += 1
        name = f"f{self._armed:06d}"
        fault = {"workspace": workspace, "site": f"{process} {site}", "nth": nth, "times": times, "what": what}
        fresh = self._folder / "armed" / f"{name}.new"
        fresh.write_text(json.dumps(fault))
        fresh.rename(fresh.with_suffix(".json"))
        return name

    def disarm(self):
        """Takes all faults away that are armed, and lets through whatever is held; gives {name: fault}."""
        gone = {}
        for path in (self._folder / "armed").glob("*.json"):
            gone[path.stem] = json.loads(path.read_text())
            path.unlink(missing_ok=True)
            (self._folder / "open" / path.stem).touch()
        return gone

    def hits(self):
        """The strikes so far: {name of the fault: [site]}."""
        found = collections.defaultdict(list)
        for path in sorted((self._folder / "hits").iterdir()):
            found[path.name.rpartition(".")[0]].append(path.read_text().splitlines()[0])
        return found

    def passed(self):
        """How often each site was passed."""
        found = collections.Counter()
        for path in (self._folder / "sites").iterdir():
            for line in path.read_text().splitlines():
                found[line.split("\t")[-1]] += 1
        return found
