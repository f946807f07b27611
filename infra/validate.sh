#!/usr/bin/env bash
# Checks the SAM template with pinned tools of its own, kept under target/. Needs Python 3.10 or newer, no account.
set -euo pipefail
shopt -s inherit_errexit # what fails in a `$(…)` ends this too
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# tool <package> <version> <program>: prints the folder of the program, and installs it if necessary.
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

# Not used: the tools only require that they are set.
export AWS_DEFAULT_REGION=eu-central-1 AWS_ACCESS_KEY_ID=none AWS_SECRET_ACCESS_KEY=none
export SAM_CLI_TELEMETRY=0

"$sam/sam" validate --lint --template infra/template.yaml
# Translates the template as CloudFormation does, with each part alone and with all parts.
"$sam/python" infra/translate.py infra/template.yaml target/infra
"$checkov/checkov" --config-file infra/checkov.yaml --file target/infra/everything.json

for event in infra/events/*.json; do
  python3 -m json.tool "$event" >/dev/null || { echo "$event is not valid JSON" >&2; exit 1; }
done
