"""A SiYuan kernel for tests: a real HTTP server with a tree of blocks and its bad habits.

It behaves as the real one was seen to behave, not as one would wish: it says
code 0 for what it did not do, drops blocks, forgets attributes, lags.
"""

from support.fake_kernel.habits import Fault, Habits
from support.fake_kernel.server import FakeKernel

__all__ = ["FakeKernel", "Fault", "Habits"]
