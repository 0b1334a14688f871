"""Bringing plangate into an AWS account: packages, the runner's image, the stacks. Nothing here knows of an emulator."""


class DeployError(Exception):
    """What was asked cannot be done; the message says why, and what to do."""
