#!/usr/bin/env bash
# Lints the SAM template with a pinned SAM CLI of its own, kept under target/. Needs Python 3.10 or newer, no account.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=1.170.0
venv=target/sam-$version

if [[ ! -x $venv/bin/sam ]]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "aws-sam-cli==$version"
fi

# Never used: the CLI only wants them to be there.
export AWS_DEFAULT_REGION=eu-central-1 AWS_ACCESS_KEY_ID=none AWS_SECRET_ACCESS_KEY=none
export SAM_CLI_TELEMETRY=0
"$venv/bin/sam" validate --lint --template infra/template.yaml

for event in infra/events/*.json; do
  python3 -m json.tool "$event" >/dev/null || { echo "$event is no JSON" >&2; exit 1; }
done
