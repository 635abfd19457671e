"""Children on the emulated driver, as a fixture."""

from tests.support.emulated_child import emulated as emulated
