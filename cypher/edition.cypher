// Which edition of the server this is.
CALL dbms.components() YIELD edition
RETURN edition
