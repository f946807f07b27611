//! The settings that an admin gives a chat: an attribute of its head. The sample item of a head is in [`turn`](super::turn).

use annals_core::chat_key::ChatKey;
use annals_core::chat_settings::ChatSettings;

use super::table::{Update, json};
use super::turn::{CHAT_SETTINGS, Head};
use super::{History, HistoryError};

impl History {
    /// Changes the settings of `chat`, and returns them; `change` may be called again if somebody else changes them
    /// meanwhile. `None`, and nothing is changed, if the chat has no messages. Two reads and one write.
    pub async fn change_settings(
        &self,
        chat: &ChatKey,
        change: impl Fn(&mut ChatSettings),
    ) -> Result<Option<ChatSettings>, HistoryError> {
        let mut changed = ChatSettings::default();
        let is_known = self.update_known(chat, |item| {
            changed = Head::of(item)?.settings;
            change(&mut changed);
            let update = if changed == ChatSettings::default() {
                Update::default().remove([CHAT_SETTINGS])
            } else {
                Update::default().set(CHAT_SETTINGS, json(&changed)?)
            };
            Ok(Some(match item.get(CHAT_SETTINGS) {
                Some(before) => update.when("chatSettings = :before").bind(":before", before.clone()),
                None => update.when("attribute_not_exists(chatSettings)"),
            }))
        });
        Ok(is_known.await?.then_some(changed))
    }
}
