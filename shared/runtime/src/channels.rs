//! The channels of platforms, one line each.

use annals_channel::platform::Registered;
use annals_channel::settings::DeliveryConfig;
use annals_core::settings::Env;
use annals_io::clock::Clock;

use crate::process::FunctionError;

/// Returns the clients of all platforms that are set up, for sending replies.
///
/// # Errors
///
/// A setting is missing or malformed.
pub fn platforms(
    env: Env<'_>,
    delivery: &DeliveryConfig,
    clock: &Clock,
) -> Result<Vec<Registered>, FunctionError> {
    let all = [
        annals_channel_telegram::platform::from_env(env, delivery, clock)?,
        annals_channel_lark::platform::from_env(env, delivery, clock)?,
    ];
    Ok(all.into_iter().flatten().collect())
}
