//! Discord's REST API on the loopback address: an emulator that keeps its state and refuses what Discord refuses.
//!
//! Tests assert on what it stored ([`DiscordApi::sent`], [`DiscordApi::commands`]) and on what was asked of it
//! ([`DiscordApi::calls`]). It knows one application with its bot, the answers to interactions, messages of channels,
//! attachments, a guild's roles, and the application's own settings. An interaction can be answered after a test has said that
//! Annals responded to it ([`DiscordApi::responded`]); every channel exists, with the bot in it, unless a test says otherwise.
//!
//! Codes and words are those of <https://discord.com/developers/docs/topics/opcodes-and-status-codes>.

use ring::digest::{SHA256, digest};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::Value;

use crate::emulator::Emulator;

mod application;
mod store;

pub use store::{APPLICATION_ID, BOT_TOKEN, Interaction, Sent, Store};

/// A running emulator; it ends with this value. Calls are named by method and path, with `*` for each id and token, such as
/// `POST /channels/*/messages`. It keeps messages as people see them now: answers to interactions, and the bot's own.
pub type DiscordApi = Emulator<Store>;

impl DiscordApi {
    /// The address of an attachment of this emulator.
    pub fn file_url(&self, name: &str) -> String {
        format!("{}/attachments/1/2/{name}?ex=68c0ffee", self.store().base.url)
    }

    /// The texts of [`DiscordApi::sent`].
    pub fn texts(&self) -> Vec<String> {
        self.sent().into_iter().map(|sent| sent.content).collect()
    }

    /// The registered commands.
    pub fn commands(&self) -> Vec<Value> {
        self.store().commands.clone()
    }

    /// The application's settings, as `GET /applications/@me` returns them.
    pub fn application(&self) -> Value {
        self.store().application()
    }

    /// Says that Annals responded to the interaction `call` with `response`: it can be answered from now on.
    pub fn responded(&self, call: &Value, response: &Value) {
        self.store().responded(call, response);
    }

    /// The bot may not write to this channel: 50001.
    pub fn expel(&self, channel_id: &str) {
        self.store().expelled.insert(channel_id.to_owned());
    }

    /// The bot may write to this channel again.
    pub fn admit(&self, channel_id: &str) {
        self.store().expelled.remove(channel_id);
    }

    /// Puts a channel in place of the default one, a text channel of a guild: an object of the API.
    pub fn set_channel(&self, channel: Value) {
        let id = channel["id"].as_str().unwrap().to_owned();
        self.store().channels.insert(id, channel);
    }

    /// Adds a message to a channel, as the API lists it.
    pub fn seed(&self, channel_id: &str, message: Value) {
        self.store().listed.entry(channel_id.to_owned()).or_default().push(message);
    }

    /// The owner of the guild, and a member with a role that may administer it.
    pub fn set_administrators(&self, owner: &str, member: &str) {
        self.store().administrators = (owner.to_owned(), member.to_owned());
    }

    /// The gateway is at this address.
    pub fn set_gateway(&self, url: &str) {
        url.clone_into(&mut self.store().gateway);
    }
}

/// Returns the application's public key, in hex.
pub fn public_key() -> String {
    hex::encode(key_pair().public_key().as_ref())
}

/// Returns the headers with which Discord signs `body`: name and value.
pub fn signed(body: &[u8]) -> [(&'static str, String); 2] {
    const TIMESTAMP: &str = "1764057600";
    let signature = key_pair().sign(&[TIMESTAMP.as_bytes(), body].concat());
    [
        ("x-signature-ed25519", hex::encode(signature.as_ref())),
        ("x-signature-timestamp", TIMESTAMP.to_owned()),
    ]
}

/// The pair of Annals' development secret, so that Annals can prove calls as this Discord's, too.
fn key_pair() -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(digest(&SHA256, b"dev-discord-key").as_ref()).unwrap()
}
