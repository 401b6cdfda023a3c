"""The paper's experiments: the runs each is made of, their results on disk, and its figures as the paper has them."""
