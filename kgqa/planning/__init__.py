"""The plans that a question may mean, put together from a schema, its values and the words."""
