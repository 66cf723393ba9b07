"""The distributions of the REST proxy, a module each."""
