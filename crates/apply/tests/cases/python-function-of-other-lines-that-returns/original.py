def a():
    x = compute(1)
    return x


def b():
    y = compute(2)
    return y


def c():
    pass
