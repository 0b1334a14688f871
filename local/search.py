"""Looks for secrets in everything that a stack has stored, logged or remembers."""

import base64
import gzip
import io
import json
import time
import urllib.parse
import zipfile
import zlib

from . import stores


class Search:
    """Searches a stack, again and again if need be, for secrets that are younger than it is: each search covers what is new since the last.

    What was stored for good before a secret was made cannot hold it, and much of it is large: the release, the runner's image.
    """

    def __init__(self, stack):
        self._stack, self._known, self._since = stack, set(), 0
        stores.note(stack, self._known)

    def places(self, secrets, said=(), look=lambda place, content: None):
        """Where the secrets are, in what form soever: {secret: the set of places}. `said` is (place, bytes) pairs to look at besides.

        Who wants to see what is stored as well gives a `look`.
        """
        began = time.time()
        forms = [(secret, form) for secret in secrets for form in written(secret)]
        found = {secret: set() for secret in secrets}
        looked = 0
        for source in (stores.everything(self._stack, self._known, self._since), said):
            for place, content in source:
                looked += 1
                look(place, content)
                for layer in layers(content) if forms else ():
                    for secret, form in forms:
                        if form in layer:
                            found[secret].add(place)
        # A minute more than enough: clocks within a machine agree, and to look twice does no harm.
        self._since = began - 60
        self.looked = looked
        return found


def written(secret):
    """The ways in which a text may be written: as it is, escaped, encoded."""
    raw = secret.encode()
    escaped = json.dumps(secret)[1:-1].encode()
    forms = {raw, escaped, json.dumps(escaped.decode())[1:-1].encode(), raw.hex().encode(), raw.hex().upper().encode(),
             urllib.parse.quote(secret, safe="").encode(), secret.encode("utf-16-le"), secret.encode("utf-16-be")}
    for alphabet in (base64.b64encode, base64.urlsafe_b64encode):
        for shift in range(3):
            # Within a longer text it begins at any of three places of a group; only these characters are its own alone.
            code = alphabet(b"\0" * shift + raw)
            forms.add(code[-(-shift * 8 // 6):(shift + len(raw)) * 8 // 6])
    return forms


def layers(content):
    """The content itself, and what is packed in it."""
    yield content
    if content[:4] == b"PK\x03\x04":
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as package:
                for name in package.namelist():
                    yield from layers(package.read(name))
        except (zipfile.BadZipFile, zlib.error):
            pass
    if content[:2] == b"\x1f\x8b":
        try:
            yield from layers(gzip.decompress(content))
        except (OSError, EOFError, zlib.error):
            pass
