"""What a model costs at any widths: tables for search over millions of candidates."""
