"""The paper's families of models: each a file of plain torch code."""
