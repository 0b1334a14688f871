"""The errors of the `docker` package that the emulator names."""


class DockerException(Exception):
    """Any failure of the container engine."""


class APIError(DockerException):
    """A request that the container engine refused."""


class NotFound(APIError):
    """No such container."""


class ImageNotFound(NotFound):
    """No such image."""


class ContainerError(DockerException):
    """A container that could not be run."""
