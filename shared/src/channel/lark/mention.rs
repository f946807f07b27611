//! `@_user_1` and the names behind it: [`Mentions`].
//!
//! ```json
//! {"key": "@_user_1", "id": {"open_id": "ou_…"}, "name": "Tom"}     as events write it
//! {"key": "@_user_1", "id": "ou_…", "id_type": "open_id", "name": "Tom"}     as the API writes it
//! ```

use serde_json::Value;

use super::bot::Bot;
use super::event::user_ids;
use crate::channel::view::View;

/// What stands in a text for everybody, with or without an entry in `mentions`.
const ALL: &str = "@_all";

/// The mentions of one message.
#[derive(Debug, Default)]
pub(super) struct Mentions<'a>(Vec<Mention<'a>>);

/// One who is mentioned.
#[derive(Debug)]
struct Mention<'a> {
    key: &'a str,
    ids: Vec<&'a str>,
    name: &'a str,
}

impl<'a> Mentions<'a> {
    /// The `mentions` of a message, the longest key first.
    pub(super) fn of(message: View<'a>) -> Self {
        let mut mentions: Vec<Mention<'a>> = message
            .objects("mentions")
            .filter_map(|view| {
                let ids = match view.raw("id") {
                    Some(Value::Object(ids)) => user_ids(View::of_map(ids)),
                    _ => view.id("id").into_iter().collect(),
                };
                let key = view.text("key").filter(|key| key.starts_with('@'))?;
                Some(Mention { key, ids, name: view.text("name").unwrap_or_default() })
            })
            .collect();
        mentions.sort_by_key(|mention| std::cmp::Reverse(mention.key.len()));
        Self(mentions)
    }

    /// Whether somebody in particular is mentioned.
    pub(super) fn is_of_somebody(&self) -> bool {
        self.0.iter().any(|mention| mention.key != ALL)
    }

    /// Whether the bot is mentioned; with everybody does not count.
    pub(super) fn is_of(&self, bot: &Bot) -> bool {
        self.0.iter().any(|mention| mention.is_of(bot))
    }

    /// The name of whoever has this id, if they are mentioned.
    pub(super) fn name_of(&self, id: &str) -> Option<&'a str> {
        let found = self.0.iter().find(|mention| mention.ids.contains(&id))?;
        Some(found.name).filter(|name| !name.is_empty())
    }

    /// What stands in a text for whoever a rich text mentions by `id`: a key, an id of theirs, or `all`.
    pub(super) fn key_of(&self, id: &str) -> Option<&'a str> {
        match id {
            "all" | "all_members" | ALL => Some(ALL),
            _ => self
                .0
                .iter()
                .find(|mention| mention.key == id || mention.ids.contains(&id))
                .map(|found| found.key),
        }
    }

    /// `text` with names in place of keys: `@_user_10` is not `@_user_1` with a `0` behind it.
    pub(super) fn named(&self, text: &str) -> String {
        let mut named = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('@') {
            named.push_str(&rest[..at]);
            rest = &rest[at..];
            let (key, name) = match self.0.iter().find(|mention| stands_at_start(mention.key, rest)) {
                Some(Mention { key, name: "", .. }) if *key != ALL => (*key, *key),
                Some(Mention { key, name, .. }) if !name.is_empty() => (*key, *name),
                _ if stands_at_start(ALL, rest) => (ALL, "all"),
                _ => ("@", "@"),
            };
            if key != name {
                named.push('@');
            }
            named.push_str(name);
            rest = &rest[key.len()..];
        }
        named + rest
    }

    /// `text` without white space and mentions of the bot at its start.
    pub(super) fn after_own<'t>(&self, text: &'t str, bot: &Bot) -> &'t str {
        let mut rest = text.trim_start();
        while let Some(mention) = self.0.iter().find(|mention| stands_at_start(mention.key, rest)) {
            if !mention.is_of(bot) {
                break;
            }
            rest = rest[mention.key.len()..].trim_start();
        }
        rest
    }
}

impl Mention<'_> {
    fn is_of(&self, bot: &Bot) -> bool {
        self.key != ALL && self.ids.iter().any(|id| bot.is(id))
    }
}

/// Whether `rest` starts with `key` and not with a longer one.
fn stands_at_start(key: &str, rest: &str) -> bool {
    rest.strip_prefix(key).is_some_and(|after| {
        !after.starts_with(|c: char| {
            if key == ALL { c.is_ascii_alphanumeric() || c == '_' } else { c.is_ascii_digit() }
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(names: &[(&str, &str)]) -> Value {
        let mentions: Vec<Value> = names
            .iter()
            .map(|(key, name)| json!({"key": key, "id": {"open_id": format!("ou{key}")}, "name": name}))
            .collect();
        json!({ "mentions": mentions })
    }

    #[test]
    fn names_stand_where_keys_stood() {
        let check = |names: &[(&str, &str)], text: &str, wanted: &str| {
            let message = message(names);
            assert_eq!(Mentions::of(View::of(&message).unwrap()).named(text), wanted);
        };
        let tom_and_ann = [("@_user_1", "Tom"), ("@_user_10", "Ann")];
        check(&tom_and_ann, "@_user_10 and @_user_1, @_user_1你好", "@Ann and @Tom, @Tom你好");
        check(&tom_and_ann[..1], "@_user_10 @_user_1", "@_user_10 @Tom");
        check(&[("@_user_1", "@_user_2"), ("@_user_2", "Bo")], "@_user_1 @_user_2", "@@_user_2 @Bo");
        check(&[("@Tom", "T"), ("@Tomas", "X")], "@Tomas @Tom", "@X @T");
        check(&[("@_user_1", "")], "@_user_1 hi", "@_user_1 hi");
        check(&[], "@_all大家好 @_allies a@b.c @", "@all大家好 @_allies a@b.c @");
        check(&[("@_all", "所有人")], "@_all hi", "@所有人 hi");
        check(&[("@_all", "")], "@_all", "@all");
    }

    #[test]
    fn the_bots_own_mention_leaves_the_start() {
        let message = message(&[("@_user_1", "Annals"), ("@_user_2", "Bo")]);
        let mentions = Mentions::of(View::of(&message).unwrap());
        let bot = Bot { app_id: None, open_id: Some("ou@_user_1".into()) };
        let check = |text: &str, wanted: &str| assert_eq!(mentions.after_own(text, &bot), wanted);
        check(" @_user_1 @_user_1 /new hi", "/new hi");
        check("@_user_1", "");
        check("@_user_12 hi", "@_user_12 hi");
        check("@_user_2 @_user_1", "@_user_2 @_user_1");
        check("hi @_user_1", "hi @_user_1");
        assert!(mentions.is_of(&bot) && !mentions.is_of(&Bot::default()));
    }
}
