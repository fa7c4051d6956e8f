"""Language models: loading a KG-LLM, its prompt and its tokens; the client of a general LLM.

Import its modules, not this package: they pull in torch and transformers, and nothing does so
before it is needed.
"""
