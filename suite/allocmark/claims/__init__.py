"""The source document's statements as claims, each with a verdict worked out from the store."""
