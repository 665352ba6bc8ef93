"""How the property tests draw: the same every time, so that what passed here passes there.

`HYPOTHESIS_PROFILE=nightly` draws anew, and more. Deadlines are off: machines are noisy.
"""

import os

from hypothesis import HealthCheck, settings

COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("ci", COMMON, derandomize=True)
settings.register_profile("nightly", COMMON, max_examples=1_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
