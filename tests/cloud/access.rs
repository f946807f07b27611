//! Secrets are in the secret store and in no environment.

use crate::stack::beside;

#[test]
#[ignore = "needs a deployed stack: just cloud"]
fn no_function_was_deployed_with_a_secret_in_its_environment() {
    beside(async |stack| {
        let environments = stack.environments();
        assert!(environments.len() >= 5, "{environments:?}");
        for (function, variables) in &environments {
            let found: Vec<_> = variables
                .iter()
                .filter(|(_, value)| stack.secrets.values().any(|secret| value.contains(secret.as_str())))
                .map(|(name, _)| name)
                .collect();
            assert!(found.is_empty(), "{function} has secrets in {found:?}");
        }
    });
}
