//! The client as a [`Platform`].

use std::time::Duration;

use annals_channel::about::About;
use annals_channel::client::Api;
use annals_channel::delivery::{DeliveryError, Drafted, OutgoingReply, Piece, Pieces, Progress};
use annals_channel::file::FileError;
use annals_channel::platform::Platform;
use annals_channel::rate_limit::RateLimit;
use annals_core::message::{Part, PartView};
use annals_core::record::Record;
use async_trait::async_trait;

use crate::about::ABOUT;
use crate::address::Address;
use crate::buttons::keyboard;
use crate::client::{CallError, Client, GROUP_RATE_LIMIT, PRIVATE_RATE_LIMIT, chunks};

/// Longest wait for the rate limit when a file is fetched, since an answer waits for it.
const FETCH_PATIENCE: Duration = Duration::from_secs(3);

#[async_trait]
impl Platform for Client {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn api(&mut self) -> &mut Api {
        &mut self.api
    }

    fn rate_limit(&self, to: &Record) -> RateLimit {
        let is_private = Address::of(to).is_some_and(|address| address.chat_id > 0);
        if is_private { PRIVATE_RATE_LIMIT } else { GROUP_RATE_LIMIT }
    }

    async fn send(
        &self,
        reply: OutgoingReply<'_>,
        sent: usize,
        progress: &Progress<'_>,
    ) -> Result<(), DeliveryError> {
        let nowhere =
            || DeliveryError::Refused { reason: "the answered message names no Telegram chat".into() };
        let mut address = Address::of(reply.to).ok_or_else(nowhere)?;
        if let Some(chat_id) = reply.moved_to {
            let chat_id = chat_id.parse().map_err(|_| nowhere())?;
            // Message and topic ids are the old chat's.
            address = Address { chat_id, reply_to: None, thread_id: None, ..address };
        }
        let chunks: Vec<_> = reply.texts().flat_map(chunks).collect();
        let mut pieces = Pieces::new(chunks.len(), sent, progress);
        while let Some(Piece { index, is_last }) = pieces.next().await? {
            let reply_to = address.reply_to.filter(|_| index == 0);
            let keyboard = is_last.then(|| keyboard(reply.requests)).flatten();
            let address = Address { reply_to, ..address.clone() };
            self.send_message(&address, &chunks[index], keyboard.as_ref()).await?;
        }
        Ok(())
    }

    async fn fetch(&self, part: &Part, limit: usize) -> Result<Vec<u8>, FileError> {
        let PartView::File { url, .. } = part.view() else { return Err(FileError::NoChannel) };
        let file_id = url.strip_prefix("telegram:").unwrap_or_default();
        let mut client = self.clone();
        client.api.set_patience(FETCH_PATIENCE);
        client.file(file_id, limit).await
    }

    async fn is_administrator(&self, chat_id: &str, user_id: &str) -> Result<bool, CallError> {
        // Only administrators can write in the name of the group; the update does not tell which one.
        if chat_id == user_id {
            return Ok(true);
        }
        Client::is_administrator(self, chat_id, user_id).await
    }

    async fn show_typing(&self, to: &Record) {
        let Some(address) = Address::of(to) else { return };
        if let Err(error) = self.send_typing(&address).await {
            tracing::debug!(%error, "failed to show the typing indicator");
        }
    }

    async fn show_draft(&self, to: &Record, markdown: &str) -> Drafted {
        let Some(address) = Address::of(to).filter(Address::takes_drafts) else { return Drafted::Never };
        // Any number but 0, the same for one answer in all its attempts.
        let id = address.reply_to.unwrap_or(1);
        match self.send_draft(&address, id, markdown).await {
            Ok(true) => Drafted::Shown,
            Ok(false) => Drafted::NotNow,
            Err(error) => {
                tracing::debug!(%error, "failed to show a draft");
                let may_pass = matches!(error, CallError::RateLimited { .. } | CallError::Unavailable { .. });
                if may_pass { Drafted::NotNow } else { Drafted::Never }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use annals_channel::testing::outgoing;
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
                let reply = outgoing(&to, before, &question);
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
