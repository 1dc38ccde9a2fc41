def a():
    x = compute(1)
    return x


def b():
    return other(4)


def c():
    pass
