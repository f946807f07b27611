//! The forms of a message: its first, and its revisions.

use annals_core::chat_key::ChatKey;
use annals_core::record::{Kind, Record};
use annals_core::sort_key::{SortKey, Timestamp};

use super::item;
use super::table::{Item, Span, Update, number};
use super::{History, HistoryError, partition};

/// A stored form of a message: the attributes by which forms differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// Time at which it was made, by its platform's clock.
    pub made_at: Option<Timestamp>,
    /// Its number: 0 for the first.
    pub revision: u32,
    pub digest: Option<String>,
}

impl Form {
    /// Reads the form in the item of a record.
    pub(super) fn of(item: &Item) -> Self {
        Self {
            made_at: item::time(item, "formTs").or_else(|| item::time(item, "ts")),
            revision: item::count(item, "revision").unwrap_or(0),
            digest: item::stored_digest(item),
        }
    }

    /// Returns the form that `record` is.
    pub(super) fn of_record(record: &Record) -> Self {
        Self {
            made_at: record.form_ts().or(Some(record.ts)),
            revision: record.revision(),
            digest: Some(item::content_digest(&record.message)),
        }
    }
}

/// Returns the number of a new form with this content, by any of its `digests`, after `forms`, all that are stored of a
/// message, the first form first; `None` if it is one of them.
pub fn next_form(forms: &[Form], form_ts: Option<Timestamp>, digests: &[String]) -> Option<u32> {
    let next = forms.iter().map(|form| form.revision).max().unwrap_or(0) + 1;
    (!is_known(forms, form_ts, digests)).then_some(next)
}

impl History {
    /// Reads the revisions of a message, in order.
    pub(super) async fn later_forms(
        &self,
        chat: &ChatKey,
        base: &SortKey,
    ) -> Result<Vec<Form>, HistoryError> {
        let span = Span::all(base.revision(0).as_str(), base.notice().as_str());
        let items = self.table.query(&partition(chat), &span).await?;
        let is_revision = |item: &&Item| item::text(item, "kind") == Some(Kind::Revision.as_str());
        Ok(items.iter().filter(is_revision).map(Form::of).collect())
    }

    /// Notes the number of revisions on a message's first record.
    pub(super) async fn count_revisions(
        &self,
        chat: &ChatKey,
        key: &SortKey,
        revisions: u32,
    ) -> Result<(), HistoryError> {
        let update = Update::default()
            .set("revisions", number(revisions))
            .when("attribute_exists(pk)")
            .when("attribute_not_exists(revisions) OR revisions < :revisions");
        self.table.update(&partition(chat), key.as_str(), update).await?;
        Ok(())
    }
}

/// Returns true if an archived record is a later form of a person's message.
pub(super) fn is_later_form(record: &Record) -> bool {
    record.kind() == Kind::Revision && !record.key.belongs_to_reply()
}

/// Returns true if a form is stored already: the newest has the same content, or the platform sent this very form
/// before.
fn is_known(forms: &[Form], form_ts: Option<Timestamp>, digests: &[String]) -> bool {
    let same = |form: &Form| form.digest.as_ref().is_some_and(|digest| digests.contains(digest));
    let Some(form_ts) = form_ts else {
        return forms.iter().max_by_key(|form| form.revision).is_some_and(same);
    };
    let newest = forms.iter().max_by_key(|form| (form.made_at, form.revision));
    newest.is_some_and(|newest| same(newest) && Some(form_ts) >= newest.made_at)
        || forms.iter().any(|form| form.made_at == Some(form_ts) && same(form))
}
