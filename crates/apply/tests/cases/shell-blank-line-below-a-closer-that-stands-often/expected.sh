#!/bin/sh
set -e

if [ -n "$DEBUG" ]; then
    if [ -n "$TRACE" ]; then
        set -x
    fi
fi

RUN_BY_NAME=0

run() {
    if [ "$RUN_BY_NAME" = 1 ]; then
        echo by name
    fi
}
