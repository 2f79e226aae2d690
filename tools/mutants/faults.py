# SPDX-License-Identifier: MIT
"""All faults, in the order of the table."""
import faults_door  # noqa: F401
import faults_engine  # noqa: F401
import faults_files  # noqa: F401
import faults_library  # noqa: F401
import faults_plans  # noqa: F401
from fault import FAULTS  # noqa: F401
