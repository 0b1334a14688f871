"""The laptop stack: plangate on an emulated AWS, without Docker."""
