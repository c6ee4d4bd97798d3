"""Reports: a page that somebody opens in a browser, and the charts on it as files."""
