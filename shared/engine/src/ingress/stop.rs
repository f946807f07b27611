//! `/stop`: ends the run of a chat.

use annals_core::context::Policy;
use annals_core::draft::Draft;
use annals_core::metadata::Notice;
use annals_core::texts::Texts;
use annals_store::history::Appended;
use annals_store::history::stop::has_something_to_end;

use super::{Answered, Ingress, IngressError};

impl Ingress {
    /// Ends everything that is being answered in the chat of the `/stop` that was `appended`, and returns the
    /// confirmation.
    ///
    /// | | step | state after a crash here |
    /// | --- | --- | --- |
    /// | 1 | **append** the command's record | a record without effect; the next delivery continues |
    /// | 2 | **deny** open approval requests | the denials stay; the next delivery continues, and ends that reply |
    /// | 3 | **take** the chat, and leave the command in its head | the run cannot commit; the queue delivers its turn again, and that run carries out the command |
    /// | 4 | **enqueue** a turn, since there may be no other one | as above, and the command is carried out; the next delivery finds that, and confirms |
    /// | 5 | **confirm**, and record the confirmation | nothing is left to do |
    pub(super) async fn stop(
        &self,
        draft: &Draft,
        appended: &Appended,
        texts: &dyn Texts,
    ) -> Result<Answered, IngressError> {
        let (chat, command) = (&draft.chat, &appended.base);
        let denied = self.deny_all(draft, command).await?;
        let (head, is_running) = self.history.head_and_run(chat).await?;
        let policy = Policy { stale_after: None, fresh: false, token_budget: u32::MAX, images: 0 };
        let records = self.history.context(chat, &head, Some(command), &policy).await?.records;
        let now = self.history.clock().now();
        if has_something_to_end(&records, command, &head, is_running, now) {
            self.history.stop(chat, command, is_running).await?;
        } else if denied.is_empty()
            && head.stopped_to.as_ref() != Some(command)
            && !records.iter().any(|record| record.stopped_by() == Some(draft.message_id.as_str()))
        {
            return Ok(Answered::from(texts.nothing_to_stop().to_owned()));
        }
        self.enqueue(draft, appended, None).await?;
        // A reply may lie before the range that the turn of the command reads.
        for asking in &denied {
            self.enqueue_resumption(asking).await?;
        }
        let mut answered = Answered::from(texts.stopped().to_owned());
        answered.message.metadata.set_notice(Notice::Stopped);
        Ok(answered)
    }
}
