"""Why a pipeline does not run or does not go on."""

from nearcast.errors import NearcastError


class PipelineError(NearcastError):
    """The pipeline cannot start or go on: Spark, its state, its tables or another process."""


class PipelineInputError(PipelineError, ValueError):
    """An option of the source or the sink, or a row for a broker, that is wrong or missing."""


class JavaError(PipelineError):
    """There is no Java that Spark can run on; the message says what to install."""


class LinkError(PipelineError):
    """A broker that could not be reached in time, or that refuses what it was given."""
