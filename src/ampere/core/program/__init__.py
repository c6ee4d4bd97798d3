"""Program: a layer as calls with symbolic sizes, built anywhere at any widths."""
