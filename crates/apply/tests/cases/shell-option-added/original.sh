#!/bin/sh
set -e

build() {
    cc -O2 -o app main.c
}

install() {
    cp app /usr/local/bin/
}

build
install
