//! The function's role in `infra/template.yaml` permits the calls that its program contains, and no others.

#[test]
#[cfg_attr(not(debug_assertions), ignore = "an optimised program lacks the symbols")]
fn the_role_permits_the_program_s_calls_and_no_others() {
    annals_test_support::permissions::check("Relay", env!("CARGO_BIN_EXE_relay"));
}
