//! Lark's Open API on the loopback address: an emulator that keeps its state and refuses what Lark refuses.
//!
//! Tests assert on what it stored ([`LarkApi::sent`]) and on what was asked of it ([`LarkApi::calls`]). It knows the app's token,
//! the bot, and getting, listing, sending and answering messages, their resources, and reactions to them. Every chat exists, with
//! the bot in it, unless a test says otherwise; so does every message, of no chat in particular until a test
//! [seeds](LarkApi::seed) it. Its clock moves only by [`LarkApi::pass`].
//!
//! Codes and words are those of <https://open.larksuite.com/document/uAjLw4CM/ukTMukTMukTM/reference/im-v1/message/reply>.

use std::time::Duration;

use serde_json::Value;

use crate::emulator::Emulator;
pub use crate::emulator::picture;

mod store;

pub use store::{APP_ID, APP_SECRET, BOT_NAME, BOT_OPEN_ID, Reaction, Sent, Store, Trouble};

/// A running emulator; it ends with this value. Rate limits meet all calls but those for tokens.
pub type LarkApi = Emulator<Store>;

impl LarkApi {
    /// The messages taken for one chat, in order.
    pub fn sent_to(&self, chat_id: &str) -> Vec<Sent> {
        self.sent().into_iter().filter(|sent| sent.chat_id == chat_id).collect()
    }

    /// The bot's reactions, as they are now.
    pub fn reactions(&self) -> Vec<Reaction> {
        self.store().reactions.clone()
    }

    /// More than five messages a second in a chat, by this clock in epoch milliseconds, are answered 230020.
    pub fn police(&self, now: impl Fn() -> i64 + Send + Sync + 'static) {
        self.store().base.clock = Some(Box::new(now));
    }

    /// Lets time pass: tokens end after two hours, a `uuid` is forgotten after one.
    pub fn pass(&self, time: Duration) {
        self.store().now += time;
    }

    /// No token is taken any more, whatever is given.
    pub fn refuse_tokens(&self, refuse: bool) {
        self.store().refuse_tokens = refuse;
    }

    /// A message as the API shows it: `message_id`, `chat_id`, `create_time` in milliseconds as a string, and what
    /// else the test wants; with an `upper_message_id` it is a part of a forwarded one.
    pub fn seed(&self, message: Value) {
        self.store().messages.push(message);
    }

    /// Gives this chat a fault.
    pub fn trouble(&self, chat_id: &str, trouble: Trouble) {
        self.store().troubles.insert(chat_id.to_owned(), trouble);
    }

    /// Removes the fault of this chat.
    pub fn restore(&self, chat_id: &str) {
        self.store().troubles.remove(chat_id);
    }

    /// This message was withdrawn: 230011.
    pub fn recall(&self, message_id: &str) {
        self.store().recalled.insert(message_id.to_owned());
    }

    /// The next `times` messages are refused with `code`.
    pub fn refuse(&self, times: usize, code: i64) {
        self.store().refuse = (times, code);
    }

    /// These users own (the first) and manage this group.
    pub fn set_managers(&self, chat_id: &str, users: &[&str]) {
        let users = users.iter().map(|user| (*user).to_owned()).collect();
        self.store().managers.insert(chat_id.to_owned(), users);
    }
}
