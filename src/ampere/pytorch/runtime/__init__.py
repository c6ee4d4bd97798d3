"""Runtime: builds and trains networks; it ships to devices, so it is written for Python 3.8."""
