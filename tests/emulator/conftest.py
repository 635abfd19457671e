"""Children on the emulated driver, as a fixture."""

from tests.support.emulated_child import emulated

__all__ = ["emulated"]
