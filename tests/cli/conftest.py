"""A broker process that the tests of a module share."""

from collections.abc import Iterator

import pytest

from tests.cli.programs import broker


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with broker(tmp_path_factory.mktemp("broker")) as found:
        yield found
