// Which server this is.
CALL dbms.components() YIELD name, versions
RETURN name, versions
