//! `/memory` and `/forget`, and `/timezone`, since a person's time zone is beside their memory.
//!
//! In a person's direct chat they show and change the entries of that person, elsewhere those of the group. An HTTP
//! conversation counts as a group's if another person spoke in it earlier, among its last [`MAX_PAGE`] records, since
//! that person can read the list too.

use annals_channel::settings::DmScope;
use annals_core::chat_key::{ChatKey, Speakers};
use annals_core::draft::Draft;
use annals_core::memory::EntryId;
use annals_core::memory::StoredEntry;
use annals_core::memory::capture::cut;
use annals_core::memory::owner::{Owner, owner_of_session, person_of};
use annals_core::memory::validity::{Validity, validities};
use annals_core::record::{Channel, Details, Kind, Record};
use annals_core::sort_key::Timestamp;
use annals_core::texts::{EntryDescription, SaidIn, Texts, Whose};
use annals_core::time_zone::TimeZone;
use annals_store::history::{Cursor, MAX_PAGE, Position};
use annals_store::memory::{Deleted, Overview, Undoable};

use super::{Ingress, IngressError};
use crate::remembering::known_as;

/// Maximum length of a list, in characters: one message on every platform.
const MAX_LIST_CHARS: usize = 3500;

/// Maximum number of undoable entries in a list, the newest, and the maximum number of characters of each.
const MAX_UNDOABLE: usize = 8;
const MAX_UNDOABLE_CHARS: usize = 120;

/// Maximum number of characters of an entry in a list.
const MAX_SHOWN_CHARS: usize = 300;

impl Ingress {
    /// Lists the entries of the owner of this chat's memory: the newest, or those up to a number.
    pub(super) async fn recollect(
        &self,
        draft: &Draft,
        up_to: Option<u32>,
        texts: &dyn Texts,
    ) -> Result<String, IngressError> {
        let Some(owner) = self.owner(draft).await? else { return Ok(texts.no_memory_here().into()) };
        let overview = self.memory.overview(&owner).await?;
        let view = ListView { chat: &draft.chat, up_to, now: self.memory.now() };
        if self.config.memory_is_on {
            return Ok(list(&owner, &overview, &view, texts));
        }
        let is_empty = overview.kept.is_empty() && overview.undoable.is_empty();
        let list = || format!("\n\n{}", list(&owner, &overview, &view, texts));
        Ok(format!("{}{}", texts.memory_is_off(), if is_empty { String::new() } else { list() }))
    }

    /// Restores an entry that the agent replaced or forgot.
    pub(super) async fn undo(
        &self,
        draft: &Draft,
        number: Option<u32>,
        texts: &dyn Texts,
    ) -> Result<String, IngressError> {
        let Some(number) = number else { return Ok(texts.which_to_undo().into()) };
        let Some(owner) = self.owner(draft).await? else { return Ok(texts.no_memory_here().into()) };
        let undone = self.memory.undo(&EntryId { owner, number }).await?;
        Ok(match undone {
            Some(kept) => texts.undone(kept.number, &shown(&kept)),
            None => texts.nothing_to_undo(number),
        })
    }

    /// Deletes an entry. A number always means the same entry, so a repeated command gives the same answer.
    pub(super) async fn forget(
        &self,
        draft: &Draft,
        number: Option<u32>,
        texts: &dyn Texts,
    ) -> Result<String, IngressError> {
        let Some(number) = number else { return Ok(texts.which_to_forget().into()) };
        let Some(owner) = self.owner(draft).await? else { return Ok(texts.no_memory_here().into()) };
        Ok(match self.memory.delete(&EntryId { owner, number }).await? {
            Deleted::Now | Deleted::Before => texts.forgotten(number),
            Deleted::Unknown => texts.no_such_entry(number),
        })
    }

    /// Sets the time zone of the person whose direct chat this is, for all agents, if `typed` names one, and says which it is. A
    /// group has that of `TIME_ZONE`.
    pub(super) async fn tell_time_zone(
        &self,
        draft: &Draft,
        typed: Option<&str>,
        texts: &dyn Texts,
    ) -> Result<String, IngressError> {
        let Some(owner) = self.owner(draft).await?.filter(|owner| owner.person().is_some()) else {
            return Ok(texts.time_zone_of_all(self.config.time_zone));
        };
        let Some(typed) = typed else {
            let own = self.own_time_zone(draft, &owner).await?;
            return Ok(texts.time_zone(own.unwrap_or(self.config.time_zone), own.is_some()));
        };
        let Some(zone) = TimeZone::named(typed) else {
            return Ok(texts.no_such_time_zone(TimeZone::similar_to(typed)));
        };
        let agents = &self.config.agents;
        let owners: Vec<Owner> =
            owner.person().into_iter().flat_map(|person| agents.owners(person)).collect();
        for owner in owners {
            self.memory.set_time_zone(&owner, zone).await?;
        }
        Ok(texts.time_zone_set(zone))
    }

    /// Returns the time zone in which a person reads and writes dates in this chat.
    pub(super) async fn time_zone_of(&self, draft: &Draft) -> Result<TimeZone, IngressError> {
        Ok(match self.owner(draft).await? {
            Some(owner) if owner.person().is_some() => self.own_time_zone(draft, &owner).await?,
            _ => None,
        }
        .unwrap_or(self.config.time_zone))
    }

    async fn own_time_zone(&self, draft: &Draft, owner: &Owner) -> Result<Option<TimeZone>, IngressError> {
        Ok(self.memory.time_zone(owner).await?.or_else(|| draft.metadata.time_zone()))
    }

    /// Returns the owner of the memory that a command in this chat is about, or `None` on a business's line, which has
    /// no memory.
    async fn owner(&self, draft: &Draft) -> Result<Option<Owner>, IngressError> {
        let mut said = vec![self.history.record_of(draft, draft.key(), 0)];
        if draft.channel.is_of_callers() && person_of(&said[0]).is_some() {
            // Only records before the command, so that a repeated command gets the same result.
            let before = Position::Before(Cursor::at(&draft.chat, &draft.key()));
            let page = self.history.page(&draft.chat, &before, MAX_PAGE).await?;
            // A summary may hide another speaker only where callers name them.
            let counts = |record: &Record| {
                record.kind() != Kind::Summary || draft.chat.speakers() == Speakers::Callers
            };
            said.extend(page.records.into_iter().filter(counts));
        }
        for (index, record) in said.iter_mut().enumerate() {
            // A person who typed a command is a member of the conversation too, and sees the list. A route may have given an earlier
            // one in the name of the key.
            if index > 0 && draft.chat.key_name() == Some(record.user_id.as_str()) {
                continue;
            }
            if let Details::Command(command) = &mut record.details {
                record.details = Details::Message(std::mem::take(command));
            }
        }
        let Some(owner) = owner_of_session(&draft.chat, said.iter(), true) else { return Ok(None) };
        // In a direct chat it is the Person already.
        let links = self.config.dm_scope == DmScope::User && draft.chat.person().is_none();
        Ok(Some(match known_as(&self.history, owner, links).await? {
            Owner::User(person) => {
                let agent = self.config.agents.profiled(self.config.agents.of_draft(draft));
                Owner::of_person(agent, person)
            }
            owner => owner,
        }))
    }
}

/// The part of a list that is shown, where and when.
struct ListView<'a> {
    chat: &'a ChatKey,
    /// Number of the last entry; `None` for the newest.
    up_to: Option<u32>,
    now: Timestamp,
}

fn list(owner: &Owner, overview: &Overview, view: &ListView<'_>, texts: &dyn Texts) -> String {
    let Overview { kept: entries, undoable, .. } = overview;
    let whose = match owner {
        Owner::User(_) | Owner::UserOf { .. } => Whose::Yours,
        Owner::Chat(_) => Whose::Chats,
    };
    let validities = validities(entries);
    let is_asked = |number: u32| view.up_to.is_none_or(|up_to| number <= up_to);
    let asked: Vec<(&StoredEntry, Validity)> =
        entries.iter().zip(validities).filter(|(kept, _)| is_asked(kept.number)).collect();
    let undo = undo_hint(undoable, texts);
    if asked.is_empty() {
        return match view.up_to.filter(|_| !entries.is_empty()) {
            Some(up_to) => texts.nothing_up_to(up_to),
            None => format!("{}{undo}", texts.nothing_remembered(whose)),
        };
    }
    let mut left = MAX_LIST_CHARS.saturating_sub(undo.chars().count());
    let lines: Vec<String> =
        asked.iter().map(|(kept, validity)| line(kept, *validity, view, texts)).collect();
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
    let older = older.map(|(kept, _)| texts.older_entries(kept.number) + "\n").unwrap_or_default();
    let (head, forget, shown) = (texts.remembered(whose), texts.how_to_forget(), lines[hidden..].join("\n"));
    format!("{head}\n\n{shown}\n\n{older}{forget}{undo}")
}

fn line(kept: &StoredEntry, validity: Validity, view: &ListView<'_>, texts: &dyn Texts) -> String {
    let entry = &kept.entry;
    let day = |time: Timestamp| time.rfc3339()[..10].to_owned();
    let tools = (!entry.outside.is_empty()).then(|| cut(&entry.outside.join(", "), MAX_SHOWN_CHARS));
    let until = validity.to.filter(|_| validity.is_past(view.now)).map(day);
    let said = entry.source.as_ref().map(|source| {
        if source.chat == *view.chat { SaidIn::ThisChat } else { SaidIn::On(title_of(&source.chat)) }
    });
    let described = texts.entry(&EntryDescription {
        text: &shown(kept),
        kind: entry.kind,
        said,
        day: &day(entry.valid_from()),
        until: until.as_deref(),
        is_pending: entry.is_pending,
        tools: tools.as_deref(),
    });
    // No "1. ": Markdown counts the items of a list anew, and entries have been deleted.
    format!("#{} {described}", kept.number)
}

/// Returns the name of the platform or protocol of a chat; a person's one chat is reached through several.
fn title_of(chat: &ChatKey) -> &'static str {
    chat.channel().map_or("direct chat", Channel::title)
}

fn shown(kept: &StoredEntry) -> String {
    let text: Vec<&str> = kept.entry.text.split_whitespace().collect();
    cut(&text.join(" "), MAX_SHOWN_CHARS)
}

/// Lists the newest entries that can be undone; empty if there are none.
fn undo_hint(undoable: &[Undoable], texts: &dyn Texts) -> String {
    if undoable.is_empty() {
        return String::new();
    }
    let lines = undoable.iter().rev().take(MAX_UNDOABLE).rev().map(|undoable| {
        let earlier = cut(&shown(&undoable.earlier), MAX_UNDOABLE_CHARS);
        format!("#{} {}", undoable.earlier.number, texts.own_change(undoable.is_forgotten(), &earlier))
    });
    let lines: Vec<String> = lines.collect();
    format!("\n\n{}\n\n{}\n\n{}", texts.own_changes(), lines.join("\n"), texts.how_to_undo())
}

#[cfg(test)]
mod tests {
    use super::*;
    use annals_core::sort_key::Timestamp;
    use annals_core::testing::entry as kept;
    use annals_core::texts::en::En;
    use annals_core::texts::zh::Zh;
    use pulldown_cmark::{Event, Parser, Tag};

    fn overview(entries: &[StoredEntry]) -> Overview {
        Overview { kept: entries.to_vec(), ..Overview::default() }
    }

    fn list(overview: &Overview, up_to: Option<u32>, texts: &dyn Texts) -> String {
        let (owner, chat) = (Owner::User("ada".into()), ChatKey::telegram(42, None));
        super::list(&owner, overview, &ListView { chat: &chat, up_to, now: Timestamp::MIN }, texts)
    }

    #[test]
    fn a_list_names_outside_tools_and_undoable_changes() {
        let mut marked = kept(1, "Pays to X.");
        marked.entry.outside = vec!["shop/lookup".into(), "web/fetch".into()];
        let undoable = |number, text, superseded_by| Undoable {
            earlier: kept(number, text),
            superseded_by,
            until: Timestamp::MIN,
        };
        let undoable = vec![undoable(1, "Pays to Y.", Some(3)), undoable(2, "Likes tea.", None)];
        let said = list(&Overview { undoable, ..overview(&[marked]) }, None, &En);
        assert_eq!(
            said,
            "What I remember about you:\n\n#1 Pays to X. (fact; 2025-11-21; saved after reading shop/lookup, web/fetch)\n\n\
             To forget one: /forget and its number\n\nWhat I changed or forgot myself, as it was:\n\n\
             #1 I changed: Pays to Y.\n#2 I forgot: Likes tea.\n\nTo bring one back: /memory undo and its number"
        );
        let is_counted = |event| matches!(event, Event::Start(Tag::List(_) | Tag::Heading { .. }));
        assert!(!Parser::new(&said).any(is_counted), "Markdown would count anew: {said}");
    }

    #[test]
    fn a_list_is_one_message_and_says_how_to_see_the_rest() {
        assert_eq!(list(&overview(&[]), None, &En), "I remember nothing about you yet.");
        assert_eq!(
            list(&overview(&[kept(1, "Likes\ntea."), kept(3, "喝茶")]), None, &En),
            "What I remember about you:\n\n#1 Likes tea. (fact; 2025-11-21)\n#3 喝茶 (fact; 2025-11-21)\n\nTo forget one: /forget and its number"
        );
        assert_eq!(
            list(&overview(&[kept(3, "喝茶")]), None, &Zh),
            "我记得关于你的这些内容：\n\n#3 喝茶（事实；2025-11-21）\n\n要忘掉某一条：/forget 加编号"
        );
        let many: Vec<StoredEntry> = (1..=100).map(|number| kept(number, &"x".repeat(400))).collect();
        let many = overview(&many);
        let newest = list(&many, None, &En);
        assert!(newest.chars().count() < 4000);
        assert!(newest.contains("\n#100 xxx") && newest.contains("\nOlder ones: /memory 90\n"), "{newest}");
        let older = list(&many, Some(5), &En);
        assert!(older.contains("\n#5 xxx") && !older.contains("Older ones") && !older.contains("#6 "));
        assert_eq!(
            list(&overview(&[kept(7, "x")]), Some(5), &En),
            "There is nothing up to number 5. /memory lists the newest."
        );
    }
}
