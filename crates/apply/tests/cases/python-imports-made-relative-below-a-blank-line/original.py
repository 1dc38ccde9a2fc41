import logging

from shop.prices import price_of
from shop.stock import count_of


class Basket:
    def __init__(self):
        self.lines = []
