# SPDX-License-Identifier: MIT
"""How the lists of this package are written."""


def words(text):
    """What stands between blanks."""
    return text.split()


def phrases(text):
    """What stands between commas, with single blanks inside."""
    return [" ".join(part.split()) for part in text.split(",") if part.strip()]
