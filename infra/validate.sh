#!/usr/bin/env bash
# Checks the SAM template with pinned tools of its own, kept under target/. Needs Python 3.10 or newer, no account.
set -euo pipefail
shopt -s inherit_errexit # what fails in a `$(…)` ends this too
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# tool <package> <version> <program>: prints where the program is, installed if it is not there yet.
tool() {
  local venv=target/$1-$2
  if [[ ! -x $venv/bin/$3 ]]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "$1==$2"
  fi
  echo "$venv/bin"
}

sam=$(tool aws-sam-cli 1.170.0 sam)
checkov=$(tool checkov 3.3.30 checkov)

# Never used: the tools only want them to be there.
export AWS_DEFAULT_REGION=eu-central-1 AWS_ACCESS_KEY_ID=none AWS_SECRET_ACCESS_KEY=none
export SAM_CLI_TELEMETRY=0

"$sam/sam" validate --lint --template infra/template.yaml
# What CloudFormation makes of it, with each of its parts alone and with all of them.
"$sam/python" infra/translate.py infra/template.yaml target/infra
"$checkov/checkov" --config-file infra/checkov.yaml --file target/infra/everything.json

for event in infra/events/*.json; do
  python3 -m json.tool "$event" >/dev/null || { echo "$event is no JSON" >&2; exit 1; }
done
