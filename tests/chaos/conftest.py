"""The checker's tests need nothing but Python; the others bring up a stack of their own."""

import os

import pytest

from .campaign import Campaign


@pytest.fixture
def campaign(request):
    """Makes a campaign: `campaign(workspaces)`; its stack ends with the test."""
    made = []

    def make(workspaces, **options):
        made.append(Campaign(f"chaos-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}-{os.getpid()}-{len(made)}", workspaces, **options))
        return made[-1]

    yield make
    for each in made:
        each.__exit__()
