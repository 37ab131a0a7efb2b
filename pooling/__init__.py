"""Who is judged: the order in which to judge a pool of documents. Knows nothing of Ray."""
