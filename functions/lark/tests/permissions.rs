//! What the function may do in `infra/template.yaml` is what it does.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is a failure that names its line")]

#[path = "../../../tests/support/permissions.rs"]
mod permissions;
#[path = "../../../tests/support/template.rs"]
mod template;

#[test]
#[cfg_attr(not(debug_assertions), ignore = "an optimised program lacks the symbols")]
fn it_may_do_what_it_does_and_no_more() {
    permissions::check("Lark", env!("CARGO_BIN_EXE_lark"));
}
