"""The command as in the tests of the core's command line."""

from tests.cli.conftest import Run, here, penstock

__all__ = ["Run", "here", "penstock"]
