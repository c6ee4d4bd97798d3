"""JAX compiles fast here rather than well: tests compare numbers, not speed."""

from __future__ import annotations

import os

os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
