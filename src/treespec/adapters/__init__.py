"""Adapters: one file a framework, which recognises its models and copies them into a `Forest`; data, never behaviour."""
