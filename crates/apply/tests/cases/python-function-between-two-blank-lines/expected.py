def load(path):
    return read(path)


def remove(path):
    unlink(path)


def store(path, text):
    write(path, text)
