"""Datasets: plain data to train and judge a model on, as arrays of numpy."""
