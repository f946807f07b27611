//! Cards with buttons, by which people allow calls, and the presses on them.
//!
//! ```json
//! {"schema": "2.0", "body": {"elements": [
//!   {"tag": "markdown", "content": "**shop_refund**"},
//!   {"tag": "button", "text": {"tag": "plain_text", "content": "✅ Approve"}, "type": "primary",
//!    "behaviors": [{"type": "callback", "value": {"annals": {"chat": "lark:chat:oc_1", "button": "y5f2b…"}}}]}]}}
//! ```
//!
//! A press comes back as `card.action.trigger`, with the value as it was sent. It is Lark's, signed as an event is, so that the
//! chat in it is the one that the card was made for, wherever somebody has forwarded it to.
//!
//! Source: [card callback](https://open.feishu.cn/document/feishu-cards/card-callback-communication),
//! [button](https://open.feishu.cn/document/feishu-cards/card-json-v2-components/interactive-components/button).

use serde_json::{Map, Value, json};

use super::parse::Press;
use crate::approval::Button;
use crate::channel::view::View;
use crate::chat_key::ChatKey;
use crate::delivery::Asked;
use crate::message::Role;
use crate::record::{Channel, Draft, Kind};
use crate::sort_key::{MessageId, Timestamp};

/// The type of the event that a press is.
pub const PRESSED: &str = "card.action.trigger";

/// The card that asks for what `asked` names, in `chat`.
pub fn of(chat: &ChatKey, asked: &[Asked]) -> Value {
    let elements = asked.iter().flat_map(|asked| {
        let number = asked.number.map(|number| format!("{number}. ")).unwrap_or_default();
        let button = |approved: bool, kind: &str| {
            // Its base may be too long for Telegram's buttons, which this spelling is made for.
            let Button { id, base, approved } = asked.button(approved);
            let value = json!({"annals": {"chat": chat, "id": id, "base": base, "approved": approved}});
            json!({
                "tag": "button", "type": kind, "text": {"tag": "plain_text", "content": asked.label(approved)},
                "behaviors": [{"type": "callback", "value": value}],
            })
        };
        // A tool's name has letters, digits, `_` and `-`.
        let name = json!({"tag": "markdown", "content": format!("{number}`{}`", asked.tool)});
        [name, button(true, "primary"), button(false, "default")]
    });
    json!({"schema": "2.0", "body": {"elements": elements.collect::<Vec<_>>()}})
}

/// The press that `event` is; `None` where its button is none of ours.
pub(super) fn press(event: View<'_>) -> Option<Press> {
    let said = event.object("action")?.object("value")?.object("annals")?;
    let chat: ChatKey = said.text("chat")?.parse().ok()?;
    let base = match said.text("base") {
        Some(base) => Some(base.parse().ok()?),
        None => None,
    };
    let button = Button { id: said.text("id")?.to_owned(), base, approved: said.flag("approved") };
    let user_id = event.object("operator")?.id("open_id")?;
    let chat_id = event.object("context").and_then(|context| context.id("open_chat_id"));
    let by = Draft {
        chat_id: chat_id.unwrap_or_else(|| chat.chat_id()).to_owned(),
        chat,
        channel: Channel::Lark,
        user_id: user_id.to_owned(),
        message_id: MessageId::new(format!("press-{}", button.id)).ok()?,
        ts: Timestamp::MIN,
        form_ts: None,
        role: Role::User,
        kind: Kind::Notice,
        parts: Vec::new(),
        metadata: Map::new(),
        album: None,
        asks: false,
        opens_session: false,
        person: None,
    };
    Some(Press { button, by })
}
