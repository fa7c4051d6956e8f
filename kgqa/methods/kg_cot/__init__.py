"""KG-CoT: a small graph reasoner scores relations step by step."""
