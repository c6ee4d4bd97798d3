"""Study: the paper's case study, a model and two that were cut, trained under a meter."""
