//! The services that the program talks to, with their faults, and the people who talk to it.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use annals_test_support::fault_proxy::{Dice, FaultProxy, Service};
use annals_test_support::lark_api::LarkApi;
use annals_test_support::model_api::ModelApi;
use annals_test_support::telegram_api::{TOKEN, TelegramApi};
use serde_json::{Value, json};

use crate::handle::Handle;

/// Share of the requests to the model and the platforms that meet a fault.
const PERCENT: u8 = 5;
/// One in so many messages is delivered twice.
const EACH: usize = 20;
/// Average number of bursts between two deletions of a chat.
const BURSTS_PER_DELETION: u64 = 40;
/// Maximum number of messages in a burst.
const BURST: u64 = 9;

const TELEGRAM_SECRET: &str = "soak-telegram-secret";
const LARK_TOKEN: &str = "soak-lark-token";

/// Emulators of the model and the platforms, which outlive the program, each behind a proxy that fails.
pub(crate) struct World {
    pub(crate) model: ModelApi,
    pub(crate) telegram: TelegramApi,
    pub(crate) lark: LarkApi,
    pub(crate) dice: Dice,
    /// In front of the model, Telegram and Lark.
    proxies: [FaultProxy; 3],
    stale: u64,
}

impl World {
    pub(crate) async fn start(stale: u64, seed: u64) -> Self {
        let dice = Dice::new(seed, PERCENT);
        let (model, telegram, lark) =
            (ModelApi::start().await, TelegramApi::start().await, LarkApi::start().await);
        model.edit(|stored| stored.any_key = true);
        model.delay(Duration::from_millis(150));
        telegram.delay(Duration::from_millis(20));
        lark.delay(Duration::from_millis(20));
        let proxies = [
            FaultProxy::start(Service::Model, &model.base_url(), &dice).await,
            FaultProxy::start(telegram.service(), telegram.base_url(), &dice).await,
            FaultProxy::start(lark.service(), lark.base_url(), &dice).await,
        ];
        Self { model, telegram, lark, dice, proxies, stale }
    }

    /// Returns the program's settings. The window is small, so that chats are compacted, and records live for minutes,
    /// so that they are archived and expire.
    pub(crate) fn settings(&self) -> Vec<(&'static str, String)> {
        let [model, telegram, lark] = self.proxies.each_ref().map(|proxy| proxy.url().to_owned());
        vec![
            ("SESSION_STALE_AFTER", format!("{}s", self.stale)),
            ("ARCHIVE_GRACE", format!("{}s", self.stale * 2)),
            ("MODEL", "openai:soak".into()),
            ("MODEL_BASE_URL", model),
            ("CONTEXT_WINDOW", "4000".into()),
            ("KEEP_RECENT", "10".into()),
            ("HTTP_API_KEYS", "dev:dev:admin".into()),
            ("TELEGRAM_BOT_TOKEN", TOKEN.into()),
            ("TELEGRAM_WEBHOOK_SECRET", TELEGRAM_SECRET.into()),
            ("TELEGRAM_API_BASE", telegram),
            ("LARK_APP_ID", annals_test_support::lark_api::APP_ID.into()),
            ("LARK_APP_SECRET", annals_test_support::lark_api::APP_SECRET.into()),
            ("LARK_VERIFICATION_TOKEN", LARK_TOKEN.into()),
            ("LARK_API_BASE", lark),
        ]
    }
}

/// The channel of a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Channel {
    Telegram,
    Lark,
    Http,
}

impl Channel {
    /// Returns the channel of a chat: every other chat is on Telegram.
    pub(crate) fn of(number: u64) -> Self {
        match number % 4 {
            1 => Self::Lark,
            3 => Self::Http,
            _ => Self::Telegram,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Telegram => "Telegram",
            Self::Lark => "Lark",
            Self::Http => "HTTP",
        }
    }

    /// Returns the `ChatKey` of chat `number`.
    pub(crate) fn chat_key(self, number: u64) -> String {
        match self {
            Self::Telegram => format!("telegram:chat:{number}"),
            Self::Lark => format!("lark:chat:oc_{number}"),
            Self::Http => format!("http:chat:dev:{number}"),
        }
    }

    /// Returns the id of the `message`th message of a chat.
    pub(crate) fn message_id(self, number: u64, message: u64) -> String {
        match self {
            Self::Telegram => message.to_string(),
            Self::Lark => format!("om_{number}_{message}"),
            Self::Http => format!("m{message}"),
        }
    }
}

/// Returns the text of the `message`th message of a chat. It is unique.
pub(crate) fn text(number: u64, message: u64) -> String {
    format!(
        "chat {number} says {message}, and tells a story of some length so that a small window is full before long"
    )
}

/// A person who writes in one chat.
pub(crate) struct Speaker {
    pub(crate) channel: Channel,
    pub(crate) number: u64,
    pub(crate) messages: u64,
    pub(crate) span: Duration,
    pub(crate) rng: fastrand::Rng,
    pub(crate) program: Handle,
    /// Time of each message, in epoch milliseconds.
    pub(crate) said: HashMap<u64, u128>,
    pub(crate) lived: Lived,
}

/// The state of a chat as its sender expects it.
#[derive(Debug, Default)]
pub(crate) struct Lived {
    /// Messages up to this one are deleted.
    pub(crate) deleted_to: u64,
    /// Number of deletions.
    pub(crate) deletions: u64,
    /// New texts of each edited message, in order.
    pub(crate) edits: HashMap<u64, Vec<String>>,
    /// Number of edits, including those of messages that were deleted later.
    pub(crate) edited: u64,
    /// Number of repeats of acknowledged messages.
    pub(crate) duplicates: u64,
}

fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()
}

impl Speaker {
    /// Sends all messages, in bursts. Each is sent again until it is acknowledged, as platforms do, and one in twenty
    /// once more, at once or after some others. After a burst it may edit or repeat an older message, or delete the
    /// chat.
    pub(crate) async fn speak(mut self) -> Lived {
        let bursts = self.messages * 2 / (BURST + 1) + 1;
        let pause = self.span * 2 / u32::try_from(bursts).unwrap();
        let mut next = 1;
        let mut later: Vec<u64> = Vec::new();
        while next <= self.messages {
            tokio::time::sleep(pause.mul_f64(self.rng.f64())).await;
            let last = (next + self.rng.u64(0..BURST)).min(self.messages);
            for message in next..=last {
                self.say(message).await;
                match self.rng.usize(0..EACH * 2) {
                    0 => later.push(message),
                    1 => {
                        self.say(message).await;
                        self.lived.duplicates += 1;
                    }
                    _ => {}
                }
                tokio::time::sleep(Duration::from_millis(self.rng.u64(0..300))).await;
            }
            next = last + 1;
            if next > self.messages || self.rng.bool() {
                for message in later.drain(..) {
                    self.say(message).await;
                    self.lived.duplicates += 1;
                }
            }
            self.look_back(next).await;
            if self.rng.u64(0..BURSTS_PER_DELETION) == 0 {
                self.program.delete(&self.channel.chat_key(self.number)).await;
                self.lived.deletions += 1;
                self.lived.deleted_to = next - 1;
                self.lived.edits.clear();
                later.clear();
            }
        }
        self.lived
    }

    /// Edits or repeats a message from before `next`, usually one that has left the table.
    async fn look_back(&mut self, next: u64) {
        let first = self.lived.deleted_to + 1;
        if first >= next || self.rng.usize(0..4) > 0 {
            return;
        }
        let message = self.rng.u64(first..next);
        if self.channel == Channel::Lark || self.rng.bool() {
            if !self.lived.edits.contains_key(&message) {
                self.say(message).await;
                self.lived.duplicates += 1;
            }
            return;
        }
        self.lived.edited += 1;
        let edited = format!("{} (edit {})", text(self.number, message), self.lived.edited);
        self.lived.edits.entry(message).or_default().push(edited.clone());
        self.say_as(message, &edited, Some(self.lived.edited)).await;
    }

    async fn say(&mut self, message: u64) {
        self.say_as(message, &text(self.number, message), None).await;
    }

    async fn say_as(&mut self, message: u64, text: &str, edit: Option<u64>) {
        let number = self.number;
        // A repeat has the date of the first message.
        let millis = *self.said.entry(message).or_insert_with(now);
        let (path, body) = match self.channel {
            Channel::Telegram => {
                let mut update = telegram(number, message, millis, text);
                if let Some(edit) = edit {
                    let mut edited = update["message"].take();
                    edited["edit_date"] = json!(now() / 1000);
                    update = json!({"update_id": number * 100_000 + 50_000 + edit, "edited_message": edited});
                }
                ("/telegram".to_owned(), update)
            }
            Channel::Lark => ("/lark".to_owned(), lark(number, message, millis, text)),
            Channel::Http => {
                let id = self.channel.message_id(number, message);
                let body = json!({"userId": "ada", "messageId": id, "text": text});
                (format!("/v1/chats/{number}/messages"), body)
            }
        };
        let headers = match self.channel {
            Channel::Telegram => ("X-Telegram-Bot-Api-Secret-Token", TELEGRAM_SECRET),
            Channel::Lark => ("X-Nothing", "of interest"),
            Channel::Http => ("Authorization", "Bearer dev"),
        };
        while !self.program.post(&path, headers, &body).await {
            tokio::time::sleep(Duration::from_millis(self.rng.u64(50..250))).await;
        }
    }
}

fn telegram(number: u64, message: u64, millis: u128, text: &str) -> Value {
    json!({"update_id": number * 100_000 + message, "message": {
        "message_id": message, "date": millis / 1000, "text": text,
        "chat": {"id": number, "type": "private", "first_name": "Ada"},
        "from": {"id": number, "is_bot": false, "first_name": "Ada"},
    }})
}

fn lark(number: u64, message: u64, millis: u128, text: &str) -> Value {
    let id = Channel::Lark.message_id(number, message);
    json!({"schema": "2.0",
    "header": {"event_id": format!("event-{id}"), "event_type": "im.message.receive_v1", "token": LARK_TOKEN},
    "event": {
        "sender": {"sender_id": {"open_id": format!("ou_{number}")}, "sender_type": "user"},
        "message": {"message_id": id, "chat_id": format!("oc_{number}"), "chat_type": "p2p", "message_type": "text",
            "create_time": millis.to_string(),
            "content": json!({"text": text}).to_string()},
    }})
}
