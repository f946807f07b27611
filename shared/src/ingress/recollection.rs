//! What `/memory` and `/forget` do and say.
//!
//! In a person's direct chat they show and change that person's entries, anywhere else the group's. An HTTP conversation
//! in which somebody else spoke before, among its last [`MAX_PAGE`] records, is a group's: what is listed there, others can
//! read.

use super::{Ingress, IngressError};
use crate::history::{Cursor, MAX_PAGE, Position};
use crate::memory::capture::cut;
use crate::memory::owner::{Owner, owner_of_session, person_of};
use crate::memory::{Deleted, EntryId, Kept};
use crate::record::{Channel, Draft, Kind};

/// The longest list that is sent, in characters: one message on every platform.
const MAX_LIST_CHARS: usize = 3500;

/// How much of an entry's text a list shows, in characters.
const MAX_SHOWN_CHARS: usize = 300;

const WHICH: &str = "Which one? Say /forget and its number in the list of /memory, such as /forget 2.";
const NOT_HERE: &str = "What is said here is not kept in memory.";

impl Ingress {
    /// Lists what the owner of this chat's memory has: the newest entries, or those up to a number.
    pub(super) async fn recollect(&self, draft: &Draft, up_to: Option<u32>) -> Result<String, IngressError> {
        let Some(owner) = self.owner(draft).await? else { return Ok(NOT_HERE.into()) };
        Ok(list(&owner, &self.memory.list(&owner).await?, up_to))
    }

    /// Deletes an entry. A number means the same entry for ever, so a repeat finds it deleted, and says the same.
    pub(super) async fn forget(&self, draft: &Draft, number: Option<u32>) -> Result<String, IngressError> {
        let Some(number) = number else { return Ok(WHICH.into()) };
        let Some(owner) = self.owner(draft).await? else { return Ok(NOT_HERE.into()) };
        Ok(match self.memory.delete(&EntryId { owner, number }).await? {
            Deleted::Now | Deleted::Before => format!("Forgotten: number {number}."),
            Deleted::Unknown => format!("There is no number {number} in the list of /memory. {WHICH}"),
        })
    }

    /// Whose memory a command of this chat is about; `None` on a business's line, which has none.
    async fn owner(&self, draft: &Draft) -> Result<Option<Owner>, IngressError> {
        let mut said = vec![self.history.record_of(draft, draft.key(), 0)];
        if matches!(draft.channel, Channel::Http | Channel::Web) && person_of(&said[0]).is_some() {
            // Only by what was said before it, so that a repeat comes to the same.
            let before = Position::Before(Cursor::at(&draft.chat, &draft.key()));
            said.extend(self.history.page(&draft.chat, &before, MAX_PAGE).await?.records);
        }
        for command in said.iter_mut().filter(|record| record.kind == Kind::Notice) {
            // Who types a command is here as well, and sees what is listed.
            command.kind = Kind::Normal;
        }
        let owner = owner_of_session(&draft.chat, &said, true);
        Ok(match owner {
            Some(Owner::Chat(chat)) => Some(Owner::Chat(self.history.first_name(&chat).await?)),
            owner => owner,
        })
    }
}

fn list(owner: &Owner, entries: &[Kept], up_to: Option<u32>) -> String {
    let whom = match owner {
        Owner::User(_) => "you",
        Owner::Chat(_) => "this group",
    };
    let asked: Vec<&Kept> =
        entries.iter().filter(|kept| up_to.is_none_or(|up_to| kept.number <= up_to)).collect();
    if asked.is_empty() {
        return match up_to.filter(|_| !entries.is_empty()) {
            Some(up_to) => format!("There is nothing up to number {up_to}. /memory lists the newest."),
            None => format!("I remember nothing about {whom} yet."),
        };
    }
    let mut left = MAX_LIST_CHARS;
    let lines: Vec<String> = asked.iter().map(|kept| line(kept)).collect();
    let fitting = lines
        .iter()
        .rev()
        .take_while(|line| {
            let takes = line.chars().count() + 1;
            let fits = takes <= left;
            left = left.saturating_sub(takes);
            fits
        })
        .count();
    let hidden = lines.len() - fitting;
    let older = hidden.checked_sub(1).and_then(|last| asked.get(last));
    let older = older.map(|kept| format!("Older ones: /memory {}\n", kept.number)).unwrap_or_default();
    format!(
        "What I remember about {whom}:\n\n{}\n\n{older}To forget one: /forget and its number",
        lines[hidden..].join("\n")
    )
}

fn line(kept: &Kept) -> String {
    let text: Vec<&str> = kept.entry.text.split_whitespace().collect();
    format!("{}. {} ({})", kept.number, cut(&text.join(" "), MAX_SHOWN_CHARS), kept.entry.kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Entry, EntryKind};
    use crate::sort_key::Timestamp;

    fn kept(number: u32, text: &str) -> Kept {
        let owner = Owner::User("ada".into());
        let entry = Entry {
            kind: EntryKind::Fact,
            owner,
            source: None,
            created: Timestamp::MIN,
            updated: None,
            text: text.into(),
        };
        Kept { number, entry }
    }

    #[test]
    fn a_list_is_one_message_and_says_how_to_see_the_rest() {
        let owner = Owner::User("ada".into());
        assert_eq!(list(&owner, &[], None), "I remember nothing about you yet.");
        assert_eq!(
            list(&owner, &[kept(1, "Likes\ntea."), kept(3, "喝茶")], None),
            "What I remember about you:\n\n1. Likes tea. (fact)\n3. 喝茶 (fact)\n\nTo forget one: /forget and its number"
        );
        let many: Vec<Kept> = (1..=100).map(|number| kept(number, &"x".repeat(400))).collect();
        let newest = list(&owner, &many, None);
        assert!(newest.chars().count() < 4000);
        assert!(newest.contains("\n100. xxx") && newest.contains("\nOlder ones: /memory 89\n"), "{newest}");
        let older = list(&owner, &many, Some(5));
        assert!(older.contains("\n5. xxx") && !older.contains("Older ones") && !older.contains("6. "));
        assert_eq!(
            list(&owner, &[kept(7, "x")], Some(5)),
            "There is nothing up to number 5. /memory lists the newest."
        );
    }
}
