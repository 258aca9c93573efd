"""`python -m shapetailor.cli`."""

import sys

from . import main

sys.exit(main())
