"""The peers: each module imports its own package, and is imported only in that peer's process."""
