//! Identity of the bot that receives the calls.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// The bot that receives the calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bot {
    /// User id of the bot: the application's id, or another one for some applications from before 2017.
    pub id: String,
}

impl Bot {
    /// Returns the bot of an application. The first part of a bot's token is its user id, in Base64.
    ///
    /// Source: <https://discord.com/developers/docs/reference#authentication>.
    pub fn of(application_id: &str, token: Option<&str>) -> Self {
        let of_token = token.and_then(|token| {
            let part = token.split('.').next()?.trim_end_matches('=');
            let id = String::from_utf8(STANDARD_NO_PAD.decode(part).ok()?).ok()?;
            let is_id = (15..=20).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_digit());
            is_id.then_some(id)
        });
        Self { id: of_token.unwrap_or_else(|| application_id.to_owned()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bot_is_that_of_the_token_or_else_of_the_application() {
        let id = |token| Bot::of("1457469483726668048", token).id;
        assert_eq!(id(None), "1457469483726668048");
        assert_eq!(id(Some("MTAzMzA0NDUyMTM3NTc2NDUzMA.Gx1.abc")), "1033044521375764530");
        assert_eq!(id(Some("MTAzMzA0NDUyMTM3NTc2NDUzMA==.Gx1.abc")), "1033044521375764530");
        for other in ["", "token", "bm90IGFuIGlk.x.y"] {
            assert_eq!(id(Some(other)), "1457469483726668048", "{other}");
        }
    }
}
