"""Names of call sites without what differs from one request to the next."""

# What stands behind these is a request's id, a person or a document, another each time.
_OWN = ("REQ#", "IDENTITY#", "GRANTED#", "DOC#grant#", "DOC#principal#", "DOC#policy#")


def general(site):
    """A site as faults are armed at it: its whole name, or its beginning and `*` where the rest is another each time."""
    place = min((place + len(own) for own in _OWN if (place := site.find(own)) >= 0), default=None)
    return site if place is None else f"{site[:place]}*"
