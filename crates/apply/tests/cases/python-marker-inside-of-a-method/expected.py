"""Reads settings."""

import os


class Settings:
    def __init__(self, path):
        self.path = path
        self.values = {}

    def load(self):
        self.reset()
        with open(self.path) as file:
            for line in file:
                key, value = line.split("=", 1)
                self.values[key] = value.strip()

    def get(self, key):
        return self.values[key]

    def reset(self):
        self.values = {}
