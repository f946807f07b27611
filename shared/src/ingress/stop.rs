//! What `/stop` does at the ingress, and what it says.

use super::{Ingress, IngressError};
use crate::context::Policy;
use crate::history::Appended;
use crate::history::stop::has_something_to_end;
use crate::record::Draft;

/// What the person is told where something was being answered, or waited for it.
pub const STOPPED: &str = "Stopped.";
/// And where nothing was.
const NOTHING_RUNS: &str = "Nothing is being answered at the moment.";

impl Ingress {
    /// Ends what is being answered in the chat of the `/stop` that was `appended`, and answers with what to say.
    ///
    /// | | step | what a crash behind it leaves |
    /// | --- | --- | --- |
    /// | 1 | **append** the command's record | a record that does nothing; the platform's repeat goes on |
    /// | 2 | **deny** what waits for somebody's word | what is denied is; the repeat goes on, and ends that reply |
    /// | 3 | **take** the chat, and leave the command in its head | the run cannot commit; the queue delivers its turn again, and that run carries the command out |
    /// | 4 | **enqueue** a turn, since nobody else may come by | as above, and the command is carried out; the repeat finds that, and tells |
    /// | 5 | **tell**, and record that | nothing is open |
    pub(super) async fn stop(&self, draft: &Draft, appended: &Appended) -> Result<String, IngressError> {
        let (chat, command) = (&draft.chat, &appended.base);
        let denied = self.deny_all(draft, command).await?;
        let (head, is_running) = self.history.head_and_run(chat).await?;
        let policy = Policy { stale_after: None, fresh: false, token_budget: u32::MAX, images: 0 };
        let records = self.history.context(chat, &head, Some(command), &policy).await?.records;
        let now = self.history.clock().now();
        if has_something_to_end(&records, command, &head, is_running, now) {
            self.history.stop(chat, command).await?;
        } else if denied.is_empty()
            && head.stopped_to.as_ref() != Some(command)
            && !records.iter().any(|record| record.stopped_by() == Some(draft.message_id.as_str()))
        {
            return Ok(NOTHING_RUNS.into());
        }
        self.enqueue(draft, appended, None).await?;
        // A reply may stand before what the turn of the command reads.
        for asking in &denied {
            self.enqueue_resumption(asking).await?;
        }
        Ok(STOPPED.into())
    }
}
