# SPDX-License-Identifier: MIT
"""The vocabulary of the demo model's world: names, creatures, places, things, feelings.

Plain lists only. Everything that combines them is in grammar.py, plots_*.py and chat.py.
"""

from words.doings import *
from words.folk import *
from words.names import *
from words.places import *
from words.things import *
