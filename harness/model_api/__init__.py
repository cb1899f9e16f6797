"""The server's side of the model APIs: requests of clients read, and replies written for them."""
