//! The client as a [`Platform`].

use std::error::Error;
use std::time::Duration;

use annals_channel::delivery::{DeliveryError, Drafted, OutgoingReply, Progress, SendStep};
use annals_channel::file::FileError;
use annals_channel::platform::{Platform, Registered, Sign};
use annals_channel::rate_limit::RateLimit;
use annals_channel::settings::DeliveryConfig;
use annals_core::message::{Part, PartView};
use annals_core::record::{Channel, Record};
use annals_core::settings::{ConfigError, Env};
use annals_io::clock::Clock;
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::address::Address;
use crate::buttons::keyboard;
use crate::client::{BOT_RATE_LIMIT, Client, GROUP_RATE_LIMIT, PRIVATE_RATE_LIMIT, SendError, chunks};
use crate::settings::TelegramConfig;

/// Longest wait for the rate limit when a file is fetched, since an answer waits for it.
const FETCH_PATIENCE: Duration = Duration::from_secs(3);

/// Creates the client that sends replies; `None` if the channel is not set up.
///
/// # Errors
///
/// A setting is missing or malformed.
pub fn from_env(
    env: Env<'_>,
    delivery: &DeliveryConfig,
    clock: &Clock,
) -> Result<Option<Registered>, Box<dyn Error + Send + Sync>> {
    let Some(config) = TelegramConfig::from_env(env)? else { return Ok(None) };
    Ok(Some(Registered::new(Channel::Telegram, client(&config, *delivery, clock)?)))
}

/// Creates the client of the bot of `config`.
pub(crate) fn client(
    config: &TelegramConfig,
    delivery: DeliveryConfig,
    clock: &Clock,
) -> Result<Client, ConfigError> {
    let client = Client::new(&config.api_base, config.token.clone(), clock.clone())?;
    Ok(client.with_rate_limit(delivery.share(BOT_RATE_LIMIT)))
}

impl Platform for Client {
    fn rate_limit(&self, to: &Record) -> Option<RateLimit> {
        let is_private = Address::of(to)?.chat_id > 0;
        Some(if is_private { PRIVATE_RATE_LIMIT } else { GROUP_RATE_LIMIT })
    }

    fn send<'a, 'p: 'a>(
        &'a self,
        reply: OutgoingReply<'a>,
        sent: usize,
        progress: &'a Progress<'p>,
    ) -> BoxFuture<'a, Result<(), DeliveryError>> {
        send(self, reply, sent, progress).boxed()
    }

    fn fetch<'a>(&'a self, part: &'a Part, limit: usize) -> BoxFuture<'a, Result<Vec<u8>, FileError>> {
        async move {
            let PartView::File { url, .. } = part.view() else { return Err(FileError::NoChannel) };
            let file_id = url.strip_prefix("telegram:").unwrap_or_default();
            self.clone().with_patience(FETCH_PATIENCE).file(file_id, limit).await
        }
        .boxed()
    }

    fn is_administrator<'a>(
        &'a self,
        chat_id: &'a str,
        user_id: &'a str,
    ) -> BoxFuture<'a, Result<bool, String>> {
        async move {
            // Only administrators can write in the name of the group; the update does not tell which one.
            if chat_id == user_id {
                return Ok(true);
            }
            Client::is_administrator(self, chat_id, user_id).await.map_err(|error| error.to_string())
        }
        .boxed()
    }

    /// `None`: each update carries the title.
    fn chat_title<'a>(&'a self, _to: &'a Record) -> Option<BoxFuture<'a, Result<Option<String>, String>>> {
        None
    }

    /// True for groups: an update says when the bot may write again, but it names the group and not its topics, and may be
    /// missed.
    fn is_heard_when_blocked(&self, to: &Record) -> bool {
        to.is_group()
    }

    fn sign(&self) -> Sign {
        Sign::Typing
    }

    fn show_typing<'a>(&'a self, to: &'a Record) -> BoxFuture<'a, ()> {
        async move {
            let Some(address) = Address::of(to) else { return };
            if let Err(error) = self.send_typing(&address).await {
                tracing::debug!(%error, "failed to show the typing indicator");
            }
        }
        .boxed()
    }

    fn takes_drafts(&self, to: &Record) -> bool {
        Address::of(to).is_some_and(|address| address.takes_drafts())
    }

    fn show_draft<'a>(&'a self, to: &'a Record, markdown: &'a str) -> BoxFuture<'a, Drafted> {
        async move {
            let Some(address) = Address::of(to) else { return Drafted::Never };
            // Any number but 0, the same for one answer in all its attempts.
            let id = address.reply_to.unwrap_or(1);
            match self.send_draft(&address, id, markdown).await {
                Ok(true) => Drafted::Shown,
                Ok(false) => Drafted::NotNow,
                Err(error) => {
                    tracing::debug!(%error, "failed to show a draft");
                    let may_pass =
                        matches!(error, SendError::RateLimited { .. } | SendError::Unavailable { .. });
                    if may_pass { Drafted::NotNow } else { Drafted::Never }
                }
            }
        }
        .boxed()
    }

    /// Does nothing: private chats have the typing indicator.
    fn add_reaction<'a>(&'a self, _to: &'a Record) -> BoxFuture<'a, Option<String>> {
        async { None }.boxed()
    }

    /// Does nothing, as there are no reactions.
    fn remove_reaction<'a>(&'a self, _to: &'a Record, _id: &'a str) -> BoxFuture<'a, ()> {
        async {}.boxed()
    }
}

async fn send(
    client: &Client,
    reply: OutgoingReply<'_>,
    sent: usize,
    progress: &Progress<'_>,
) -> Result<(), DeliveryError> {
    let nowhere = || DeliveryError::Refused { reason: "the answered message names no Telegram chat".into() };
    let mut address = Address::of(reply.to).ok_or_else(nowhere)?;
    if let Some(chat_id) = reply.moved_to {
        let chat_id = chat_id.parse().map_err(|_| nowhere())?;
        // Message and topic ids are the old chat's.
        address = Address { chat_id, reply_to: None, thread_id: None, ..address };
    }
    let chunks: Vec<_> = reply.texts().flat_map(chunks).collect();
    for (index, chunk) in chunks.iter().enumerate().skip(sent) {
        let is_last = index + 1 == chunks.len();
        let reply_to = address.reply_to.filter(|_| index == 0);
        let keyboard = is_last.then(|| keyboard(reply.requests)).flatten();
        progress(SendStep::Next { piece: index, is_last }).await?;
        client.send_with(&Address { reply_to, ..address.clone() }, chunk, keyboard.as_ref()).await?;
        if !is_last {
            progress(SendStep::Sent { pieces: index + 1 }).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use annals_core::approval::{question, request_part};
    use annals_core::message::{Role, ToolCall, UiMessage};
    use annals_core::testing::user;
    use annals_core::texts::en::En;
    use serde_json::json;

    use super::*;

    /// If text and question were one document, an HTML block or a fence that the model leaves open would swallow the
    /// question's fence, and an argument that closes it would turn the arguments after it into Markdown, which hides
    /// characters.
    #[test]
    fn the_text_of_a_reply_does_not_change_how_arguments_look() {
        let to = user(0, 1);
        for before in
            ["<!--", "<script>", "<pre>", "<![CDATA[", "<?", "<div>", "```", "~~~", "> ```", "- x\n\n  ```"]
        {
            for close in ["-->", "</script>", "</pre>", "]]>", "?>", "```", "~~~"] {
                let input = json!({"aNote": close, "command": "rm -rf *old* [~/tmp](https://mallory.example) __all__"});
                let call = ToolCall { id: "c".into(), name: "shell".into(), input: input.clone() };
                let parts = vec![request_part(&call, "0123456789abcdef", false)];
                let question = question(&UiMessage::new("", Role::Assistant, parts), &En).unwrap();
                let reply = OutgoingReply {
                    to: &to,
                    key: &to.key,
                    text: before,
                    question: &question,
                    ts: to.ts,
                    moved_to: None,
                    requests: &[],
                };
                let json = serde_json::to_string_pretty(&input).unwrap();
                let command = json.lines().find(|line| line.contains("command")).unwrap().trim();
                let shown: Vec<_> = reply.texts().flat_map(chunks).collect();
                assert!(
                    shown.iter().any(|chunk| chunk.text.contains(command)),
                    "{before} {close}: {shown:?}"
                );
            }
        }
    }
}
