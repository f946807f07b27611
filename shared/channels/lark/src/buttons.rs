//! Cards with the buttons of approval requests, and presses of these buttons.
//!
//! ```json
//! {"schema": "2.0", "body": {"elements": [
//!   {"tag": "markdown", "content": "**shop_refund**"},
//!   {"tag": "button", "text": {"tag": "plain_text", "content": "✅ Approve"}, "type": "primary",
//!    "behaviors": [{"type": "callback", "value": {"annals": {"chat": "lark:chat:oc_1", "button": "y5f2b…"}}}]}]}}
//! ```
//!
//! A press arrives as `card.action.trigger` with the value of the button. Lark signs it like an event, so the chat in
//! the value is the one that the card was made for, even if somebody forwarded the card. A Person's direct chat is not
//! taken from it: with `DM_SCOPE=user` it is that of the identity that pressed, as for a message.
//!
//! Source: [card callback](https://open.feishu.cn/document/feishu-cards/card-callback-communication),
//! [button](https://open.feishu.cn/document/feishu-cards/card-json-v2-components/interactive-components/button).

use annals_channel::delivery::RequestedCall;
use annals_channel::json::JsonView;
use annals_channel::settings::Settings;
use annals_channel::webhook::Press;
use annals_core::approval::Button;
use annals_core::chat_key::ChatKey;
use annals_core::draft::{Draft, Origin};
use annals_core::record::{Channel, Kind};
use annals_core::sort_key::{MessageId, Timestamp};
use serde_json::{Value, json};

/// Type of the event that reports a press.
pub const PRESSED: &str = "card.action.trigger";

/// Returns the card that requests approval of `asked` in `chat`.
pub fn of(chat: &ChatKey, asked: &[RequestedCall]) -> Value {
    let elements = asked.iter().flat_map(|asked| {
        let number = asked.number.map(|number| format!("{number}. ")).unwrap_or_default();
        let button = |approved: bool, kind: &str| {
            // Fields instead of [`Button::data`], which is made for Telegram's short limit: the base may be longer.
            let Button { id, base, approved } = asked.button(approved);
            let value = json!({"annals": {"chat": chat, "id": id, "base": base, "approved": approved}});
            json!({
                "tag": "button", "type": kind, "text": {"tag": "plain_text", "content": asked.label(approved)},
                "behaviors": [{"type": "callback", "value": value}],
            })
        };
        // A tool's name consists of letters, digits, `_` and `-`, so it needs no escaping.
        let name = json!({"tag": "markdown", "content": format!("{number}`{}`", asked.tool)});
        [name, button(true, "primary"), button(false, "default")]
    });
    json!({"schema": "2.0", "body": {"elements": elements.collect::<Vec<_>>()}})
}

/// Parses the press in `event`. Returns `None` if the button is not from this program.
pub(super) fn press(event: JsonView<'_>, settings: &Settings) -> Option<Press> {
    let said = event.object("action")?.object("value")?.object("annals")?;
    let chat: ChatKey = said.text("chat")?.parse().ok()?;
    let base = match said.text("base") {
        Some(base) => Some(base.parse().ok()?),
        None => None,
    };
    let button = Button { id: said.text("id")?.to_owned(), base, approved: said.flag("approved") };
    let user_id = event.object("operator")?.id("open_id")?;
    let own = chat.person().and_then(|_| settings.direct(Channel::Lark, user_id).ok().flatten());
    let chat = own.unwrap_or(chat);
    let chat_id = event.object("context").and_then(|context| context.id("open_chat_id"));
    let origin = Origin {
        chat_id: chat_id.unwrap_or_else(|| chat.chat_id()).to_owned(),
        chat,
        channel: Channel::Lark,
        user_id: user_id.to_owned(),
    };
    let message_id = MessageId::new(format!("press-{}", button.id)).ok()?;
    let by = Draft::new(origin, message_id, Timestamp::MIN).of_kind(Kind::Notice);
    Some(Press { button, by, details: Value::Null })
}
