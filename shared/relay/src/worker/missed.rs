//! Fetches the messages that were sent between two sessions.
//!
//! Discord lists neither edits and deletions from that time, nor threads that were archived meanwhile, nor the channels of
//! direct messages: so the first message of a person whose channel the host does not know is not fetched.

use std::time::Duration;

use futures::future::try_join_all;
use serde_json::{Value, json};

use super::Worker;
use crate::event::{Channel, Guild};
use crate::hold::LeaseLost;
use crate::host::{Host, PAGE};
use crate::permission::can_read;
use crate::snowflake;

/// Time by which messages of different channels may arrive out of the order of their ids.
const MARGIN: Duration = Duration::from_mins(1);
/// Age of the oldest message that is fetched.
const MAX_AGE: Duration = Duration::from_hours(7 * 24);
/// Channels that may refuse to be read over one connection: Discord bans an address after 10,000 refused requests in ten
/// minutes, and the client makes no more requests after a hundred.
const MAX_REFUSED: usize = 25;
/// Number of channels that are read at the same time: the bot may make 50 requests a second.
const READ_AT_ONCE: usize = 10;
/// Types of channels that have messages: text, direct, voice, announcements, the three kinds of threads, stage.
/// <https://discord.com/developers/docs/resources/channel#channel-object-channel-types>
const WITH_MESSAGES: [u8; 8] = [0, 1, 2, 5, 10, 11, 12, 13];

/// A channel that is read, and the fields that Discord's REST API leaves out of its messages.
struct Place {
    channel_id: String,
    guild_id: Option<u64>,
    channel_type: u8,
}

impl<H: Host> Worker<'_, H> {
    /// Stores the direct messages after `since`.
    pub(super) async fn fetch_direct(&mut self, since: u64) -> Result<(), LeaseLost> {
        let operation = "list the direct channels of Discord";
        let channels = self.until_done(operation, || self.host.direct_channels()).await?;
        let channels = channels.unwrap_or_default();
        let place = |channel_id| Place { channel_id, guild_id: None, channel_type: 1 };
        self.fetch(channels.into_iter().map(place).collect(), since).await
    }

    /// Stores the messages of `guild` after `since`.
    pub(super) async fn fetch_guild(&mut self, guild: &Guild, since: u64) -> Result<(), LeaseLost> {
        let start = self.start(since);
        let is_newer = |channel: &&Channel| channel.last_message_id.is_some_and(|last| last > start);
        let channels = guild.channels.iter().chain(&guild.threads);
        let channels = channels.filter(|channel| WITH_MESSAGES.contains(&channel.kind)).filter(is_newer);
        let channels = channels.filter(|channel| can_read(guild, channel, self.bot_id));
        let place = |channel: &Channel| Place {
            channel_id: channel.id.clone(),
            guild_id: Some(guild.id),
            channel_type: channel.kind,
        };
        self.fetch(channels.map(place).collect(), since).await
    }

    async fn fetch(&mut self, places: Vec<Place>, since: u64) -> Result<(), LeaseLost> {
        let start = self.start(since);
        for places in places.chunks(READ_AT_ONCE) {
            if self.refused >= MAX_REFUSED {
                tracing::error!(
                    "Discord refuses to show {MAX_REFUSED} channels; their missed messages and those of the rest are lost"
                );
                break;
            }
            let pages = try_join_all(places.iter().map(|place| self.page(place, start))).await?;
            for (place, page) in places.iter().zip(pages) {
                match page {
                    Some(page) => self.fetch_channel(place, page, start).await?,
                    None => self.refused += 1,
                }
            }
        }
        Ok(())
    }

    /// Reads messages of one channel after `start`. Returns `None` if Discord refuses to show them.
    async fn page(&self, place: &Place, start: u64) -> Result<Option<Vec<Value>>, LeaseLost> {
        let read = || self.host.messages_after(&place.channel_id, start);
        self.until_done("read missed messages of Discord", read).await
    }

    /// Stores the messages of one channel after `start`, the oldest first; `page` is the first of them.
    async fn fetch_channel(
        &mut self,
        place: &Place,
        mut page: Vec<Value>,
        mut start: u64,
    ) -> Result<(), LeaseLost> {
        loop {
            let is_full = page.len() >= PAGE;
            let with_id = |message: Value| Some((snowflake::of(&message)?, message));
            let mut messages: Vec<(u64, Value)> =
                page.into_iter().filter_map(with_id).filter(|(id, _)| *id > start).collect();
            messages.sort_by_key(|(id, _)| *id);
            let Some(&(last, _)) = messages.last() else { return Ok(()) };
            for (_, message) in messages {
                self.message(dispatch(place, message)).await?;
            }
            if !is_full {
                return Ok(());
            }
            start = last;
            // Discord refuses the channel now: the rest is skipped.
            let Some(next) = self.page(place, start).await? else { return Ok(()) };
            page = next;
        }
    }

    /// Returns the id after which messages are read if those after `since` were missed.
    fn start(&self, since: u64) -> u64 {
        let oldest = snowflake::at(self.clock.now().minus(MAX_AGE));
        snowflake::before(since, MARGIN).max(oldest)
    }
}

/// Returns a message of the REST API as the gateway would have brought it.
fn dispatch(place: &Place, mut message: Value) -> Value {
    if let Some(guild_id) = place.guild_id {
        message["guild_id"] = json!(guild_id.to_string());
    }
    message["channel_type"] = json!(place.channel_type);
    json!({"op": 0, "t": "MESSAGE_CREATE", "s": null, "d": message})
}
