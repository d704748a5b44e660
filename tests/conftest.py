"""How hard the property tests look.

`TIDELOG_TEST_PROFILE=soak pytest tests/property --timeout 0` looks for long, and elsewhere each time.
"""

import os

from hypothesis import HealthCheck, settings

# The machines that run this differ in speed, so there is no deadline for one example.
COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("quick", max_examples=100, stateful_step_count=30, derandomize=True, **COMMON)
settings.register_profile("soak", max_examples=5_000, stateful_step_count=60, print_blob=True, **COMMON)
settings.load_profile(os.environ.get("TIDELOG_TEST_PROFILE", "quick"))
