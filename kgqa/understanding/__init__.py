"""Reading a question once: in one wording, and as a value that everything else takes."""
