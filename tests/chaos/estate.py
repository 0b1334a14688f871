"""What the campaign's runs change, and the marks that their applies leave outside of the gate, to be counted without asking it."""

import dataclasses
import hashlib
import pathlib

from mischief import archive, executable

from .stores import Trace

# A configuration of the engine's own resources. The mark is what the checker knows it by; `trace` is made anew with each mark.
CONFIGURATION = """\
terraform {{
  required_version = ">= 1.9"
}}
variable "database_password" {{
  type      = string
  sensitive = true
}}
locals {{
  mark = "{mark}"
}}
resource "terraform_data" "mark" {{
  input = local.mark
}}
resource "terraform_data" "database" {{
  input = {{
    name     = "orders"
    password = var.database_password
  }}
}}
resource "terraform_data" "trace" {{
  triggers_replace = local.mark
  depends_on       = [terraform_data.mark]
  provisioner "local-exec" {{
    command = "{command}"
  }}
{broken}}}
"""
BROKEN = "  lifecycle {\n    precondition {\n      condition     = local.mark == \"another\"\n      error_message = \"this plan is meant to fail\"\n    }\n  }\n"


class Journal:
    """A folder that engines and what they make write a line to: which run, when, and the mark."""

    def __init__(self, stack):
        self.folder = stack.directory / "estate"
        self.folder.mkdir()
        self.folder.chmod(0o755)
        for name in ("engines", "made"):
            (self.folder / name).touch()
            (self.folder / name).chmod(0o666)  # the engine may run as another user

    def engine(self, engine):
        """The same engine, but each start of an apply is noted before it; of the same name, so that it is found among processes."""
        # The engine works in the folder of its run, which is how the run is known.
        script = self.folder / pathlib.Path(engine.path).name
        note = f"printf '%s %s\\n' \"$(date +%s.%N)\" \"$PWD\" >> {self.folder}/engines"
        executable(script, f'#!/bin/sh\n[ "$1" != apply ] || {note}\nexec {engine.path} "$@"\n')
        return dataclasses.replace(engine, path=str(script), sha256=hashlib.sha256(script.read_bytes()).hexdigest())

    def configuration(self, how, mark):
        """The text of a configuration: `change` makes its trace, `fails` and `slow` do so too, `broken` cannot be planned."""
        note = f"printf '%s %s %s\\\\n' {mark} \\\"$(date +%s.%N)\\\" \\\"$PWD\\\" >> {self.folder}/made"
        command = {"slow": f"sleep 2; {note}", "fails": f"{note}; exit 1"}.get(how, note)
        return CONFIGURATION.format(mark=mark, command=command, broken=BROKEN if how == "broken" else "")

    def bundle(self, how, mark):
        """A bundle with this configuration."""
        return archive({"main.tf": self.configuration(how, mark)})

    def engines(self):
        """The engines that were started to apply."""
        return [Trace(_run(where), float(at)) for at, where in self._lines("engines", 2)]

    def made(self):
        """What was made."""
        return [Trace(_run(where), float(at), mark) for mark, at, where in self._lines("made", 3)]

    def _lines(self, name, parts):
        lines = (self.folder / name).read_text().splitlines()
        return [line.split(" ", parts - 1) for line in lines]


def _run(folder):
    """The run that works in a folder."""
    return next((part for part in pathlib.PurePath(folder).parts if part.startswith("run-")), folder)
