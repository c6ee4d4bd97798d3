"""Networks as flat lists of calls with numbers: what every engine but torch itself trains."""
