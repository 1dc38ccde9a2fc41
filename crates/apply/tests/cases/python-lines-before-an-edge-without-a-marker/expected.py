import io

from setuptools import find_packages
from setuptools import setup

with open("README.rst", encoding="utf8") as f:
    readme = f.read()

setup(
    name="one",
    packages=find_packages(),
)
