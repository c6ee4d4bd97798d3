"""Other libraries that ask ampere: one small file each, imported by whoever has the library."""
