"""Why there is no program; each is one line."""


class AssetsError(Exception):
    """A program cannot be had."""


class Unavailable(AssetsError):  # noqa: N818 - named for what it means
    """This machine lacks what building needs (Go, network, disk): no fault of the tree."""


class BuildFailed(AssetsError):  # noqa: N818 - named for what it means
    """The pinned modules do not build, or are not what go.sum says."""
