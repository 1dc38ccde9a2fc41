def add(a, b):
    """The sum."""
    return a + b


def sub(a, b):
    """The difference."""
    return a - b
