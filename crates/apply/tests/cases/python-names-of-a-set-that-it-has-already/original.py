import sys

KNOWN = {
    "os",
    "stat",
    "codecs",
    "inspect",
    "threading",
    "datetime",
    "typing",
    "types",
    "shutil",
}


def check(name):
    return name in KNOWN
