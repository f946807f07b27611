# What there is to do: `just`. Each recipe is also one plain command, for those without just.

[private]
default:
    @just --list --unsorted

# The local program: all routes in one process, no account
run *args:
    cargo run -- {{ args }}

# All tests, or those that the arguments name
test *args:
    cargo test --workspace --locked {{ args }}

# Format and lints, as CI wants them
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked -- -D warnings

# The code's documentation; opens with `just docs --open`
docs *args:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked {{ args }}

# Licences, versions, sources and security advisories of the dependencies
deny:
    cargo deny --locked --workspace check

# Ten minutes of fuzzing of one parser: `just fuzz telegram`. Needs nightly Rust and cargo-fuzz: fuzz/README.md
fuzz parser *args:
    cp Cargo.lock fuzz/
    cargo run --quiet -p annals-hostile --bin seeds -- fuzz/corpus
    PARSER={{ parser }} cargo +nightly fuzz run --sanitizer none any fuzz/corpus/{{ parser }} -- -max_total_time=600 -timeout=10 -rss_limit_mb=2048 -max_len=16384 {{ args }}

# Twenty thousand other cases of a property test: `just hunt -p annals-core each_message`
hunt *args:
    PROPTEST_CASES=20000 PROPTEST_RNG_SEED=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ') cargo test --release --locked {{ args }}

# Lines and regions of the core and the engine that the tests run: `just coverage --own` for the unit tests alone
coverage *args:
    tests/coverage/run {{ args }}

# Changes of one file that no unit test of its crate notices: `just mutants shared/core/src/sort_key.rs`. Needs cargo-mutants
mutants file *args:
    cargo mutants --file {{ file }} --output target {{ args }} -- --lib

# Whether Vercel's AI SDK, from 6.0.0 on, takes what is stored
ai-sdk:
    tests/ai-sdk/run

# The tools of real MCP servers: the official reference server and fastmcp
mcp *args:
    tests/mcp/run {{ args }}

# The TypeScript client: built, packed, and driven against the program
client:
    tests/client/run

# The console, built of its sources into console/dist, which is committed
console-build *args:
    console/build {{ args }}

# The console in a real Chromium: `just console --test-name-pattern memory`
console *args:
    tests/console/run {{ args }}

# The pictures of the console in the README and docs/
screenshots:
    tests/console/screenshots

# What the HTTP API takes and answers, as a document, from the code's annotations
openapi:
    cargo run --quiet -p annals-http --example openapi > target/openapi.json
    mv target/openapi.json functions/http/openapi.json

# The tables of docs/settings.md, from the settings in the code
settings:
    UPDATE_DOCS=1 cargo test -p annals --test end_to_end settings_page

# Calls that schemathesis makes of that document, to the local program: `just api --seed 7`
api *args:
    tests/schemathesis/run {{ args }}

# The image of the local program, built and run by Docker or Podman
image:
    tests/image/run

# All that people and their programs meet over HTTP: the API as documented, three ages of the AI SDK, the console in a browser
web:
    tests/schemathesis/run
    tests/ai-sdk/run
    tests/mcp/run
    tests/client/run
    console/build --check
    tests/console/run

# The SAM template
infra:
    infra/validate.sh

# The functions built, deployed to an AWS emulated here, and driven through it: `just cloud a_poisoned_message`
cloud *args:
    infra/cloud/run {{ args }}

# The tables and plots of docs/benchmarks.md and docs/scale.md, measured beside what people use instead
bench *args:
    bench/compare/run {{ args }}

# What the local program takes beside bare puts, and a burst into one chat
throughput *args:
    bench/throughput/run {{ args }}

# 200 chats, 20,000 messages, and faults of every kind for half an hour: `just soak --chats 20 --messages 600 --minutes 2`
soak *args:
    cargo bench --profile dev --bench soak -- {{ args }}

# Everything that must pass
ci:
    .ci/run
