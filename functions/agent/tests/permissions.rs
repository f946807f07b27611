//! The function's role in `infra/template.yaml` permits the calls that its program contains, and no others.

annals_test_support::permissions!("Agent", env!("CARGO_BIN_EXE_agent"));
