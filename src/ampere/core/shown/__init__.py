"""What a reader sees of results: letters that do no harm, pages in notebooks, lists of layers."""
