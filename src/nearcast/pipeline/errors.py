"""Errors that keep a pipeline from starting or continuing."""

from nearcast.errors import NearcastError


class PipelineError(NearcastError):
    """The pipeline cannot start or continue: Spark, its state, its tables or another process."""


class PipelineInputError(PipelineError, ValueError):
    """An option of the source or the sink, or a row for a broker, that is wrong or missing."""


class JavaError(PipelineError):
    """No Java was found that Spark can run on; the message names what to install."""


class LinkError(PipelineError):
    """A broker could not be reached in time, or refused a request."""


class LinkRefusedError(LinkError):
    """A broker refused a message: it is wrong, or the broker's release does not know it."""


class ResultLimitError(PipelineError):
    """The results of a job are larger than the driver takes."""
