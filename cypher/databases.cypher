// The databases that the server knows, which of them serves by default, and whether it is up.
SHOW DATABASES YIELD name, default, currentStatus
