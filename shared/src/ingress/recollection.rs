//! What `/memory` and `/forget` do and say.
//!
//! In a person's direct chat they show and change that person's entries, anywhere else the group's. An HTTP conversation
//! in which somebody else spoke before, among its last [`MAX_PAGE`] records, is a group's: what is listed there, others can
//! read.

use super::{Ingress, IngressError};
use crate::history::{Cursor, MAX_PAGE, Position};
use crate::memory::capture::cut;
use crate::memory::owner::{Owner, owner_of_session, person_of};
use crate::memory::{Deleted, EntryId, Kept, Overview, Undoable};
use crate::record::{Channel, Draft, Kind};

/// The longest list that is sent, in characters: one message on every platform.
const MAX_LIST_CHARS: usize = 3500;

/// How many entries that can be undone a list shows at most, the newest, and how much of each, in characters.
const MAX_UNDOABLE: usize = 8;
const MAX_UNDOABLE_CHARS: usize = 120;

/// How much of an entry's text a list shows, in characters.
const MAX_SHOWN_CHARS: usize = 300;

const WHICH: &str = "Which one? Say /forget and its number in the list of /memory, such as /forget 2.";
const WHICH_UNDO: &str =
    "/memory lists what can be undone: say /memory undo and its number, such as /memory undo 2.";
const OFF: &str = "Memory is off: I keep nothing from our conversations, and use nothing that I kept before. /forget still \
                   deletes what there is.";
const NOT_HERE: &str = "What is said here is not kept in memory.";

impl Ingress {
    /// Lists what the owner of this chat's memory has: the newest entries, or those up to a number.
    pub(super) async fn recollect(&self, draft: &Draft, up_to: Option<u32>) -> Result<String, IngressError> {
        let Some(owner) = self.owner(draft).await? else { return Ok(NOT_HERE.into()) };
        let overview = self.memory.overview(&owner).await?;
        if self.memory_is_on {
            return Ok(list(&owner, &overview, up_to));
        }
        let is_empty = overview == Overview::default();
        let before = if is_empty { String::new() } else { format!("\n\n{}", list(&owner, &overview, up_to)) };
        Ok(format!("{OFF}{before}"))
    }

    /// Brings back what an entry was before the agent replaced or forgot it.
    pub(super) async fn undo(&self, draft: &Draft, number: Option<u32>) -> Result<String, IngressError> {
        let Some(number) = number else { return Ok(WHICH_UNDO.into()) };
        let Some(owner) = self.owner(draft).await? else { return Ok(NOT_HERE.into()) };
        let undone = self.memory.undo(&EntryId { owner, number }).await?;
        Ok(match undone {
            Some(kept) => format!("Undone. Number {number} says again: {}", shown(&kept)),
            None => format!("There is nothing to undo for number {number}. {WHICH_UNDO}"),
        })
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

fn list(owner: &Owner, overview: &Overview, up_to: Option<u32>) -> String {
    let Overview { kept: entries, undoable } = overview;
    let whom = match owner {
        Owner::User(_) => "you",
        Owner::Chat(_) => "this group",
    };
    let asked: Vec<&Kept> =
        entries.iter().filter(|kept| up_to.is_none_or(|up_to| kept.number <= up_to)).collect();
    if asked.is_empty() {
        return match up_to.filter(|_| !entries.is_empty()) {
            Some(up_to) => format!("There is nothing up to number {up_to}. /memory lists the newest."),
            None => format!("I remember nothing about {whom} yet.{}", undo_hint(undoable)),
        };
    }
    let undo = undo_hint(undoable);
    let mut left = MAX_LIST_CHARS.saturating_sub(undo.chars().count());
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
        "What I remember about {whom}:\n\n{}\n\n{older}To forget one: /forget and its number{undo}",
        lines[hidden..].join("\n")
    )
}

fn line(kept: &Kept) -> String {
    let outside = match &kept.entry.outside[..] {
        [] => String::new(),
        tools => format!("; saved after reading {}", cut(&tools.join(", "), MAX_SHOWN_CHARS)),
    };
    format!("{}. {} ({}{outside})", kept.number, shown(kept), kept.entry.kind)
}

fn shown(kept: &Kept) -> String {
    let text: Vec<&str> = kept.entry.text.split_whitespace().collect();
    cut(&text.join(" "), MAX_SHOWN_CHARS)
}

/// Says what can be undone, the newest entries of it; empty where that is nothing.
fn undo_hint(undoable: &[Undoable]) -> String {
    if undoable.is_empty() {
        return String::new();
    }
    let lines = undoable.iter().rev().take(MAX_UNDOABLE).rev().map(|undoable| {
        let (number, did) =
            (undoable.earlier.number, if undoable.is_forgotten { "forgot" } else { "changed" });
        format!("{number}. I {did}: {}", cut(&shown(&undoable.earlier), MAX_UNDOABLE_CHARS))
    });
    let lines: Vec<String> = lines.collect();
    format!(
        "\n\nWhat I changed or forgot myself, as it was:\n\n{}\n\nTo bring one back: /memory undo and its number",
        lines.join("\n")
    )
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
            outside: Vec::new(),
            text: text.into(),
        };
        Kept { number, entry }
    }

    fn list(owner: &Owner, entries: &[Kept], up_to: Option<u32>) -> String {
        super::list(owner, &Overview { kept: entries.to_vec(), undoable: Vec::new() }, up_to)
    }

    #[test]
    fn a_list_says_what_outside_tools_were_read_and_what_can_be_undone() {
        let owner = Owner::User("ada".into());
        let mut marked = kept(1, "Pays to X.");
        marked.entry.outside = vec!["shop/lookup".into(), "web/fetch".into()];
        let undoable = |number, text, is_forgotten| Undoable {
            earlier: kept(number, text),
            is_forgotten,
            until: Timestamp::MIN,
        };
        let undoable = vec![undoable(1, "Pays to Y.", false), undoable(2, "Likes tea.", true)];
        let said = super::list(&owner, &Overview { kept: vec![marked], undoable }, None);
        assert_eq!(
            said,
            "What I remember about you:\n\n1. Pays to X. (fact; saved after reading shop/lookup, web/fetch)\n\n\
             To forget one: /forget and its number\n\nWhat I changed or forgot myself, as it was:\n\n\
             1. I changed: Pays to Y.\n2. I forgot: Likes tea.\n\nTo bring one back: /memory undo and its number"
        );
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
