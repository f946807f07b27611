//! Mentions: keys such as `@_user_1` in a text, and the people they stand for: [`Mentions`].
//!
//! ```json
//! {"key": "@_user_1", "id": {"open_id": "ou_…"}, "name": "Tom"}     in events
//! {"key": "@_user_1", "id": "ou_…", "id_type": "open_id", "name": "Tom"}     in the API
//! ```

use annals_channel::json::JsonView;
use serde_json::Value;

use super::bot::Bot;
use super::user_id::user_ids;

/// Key for a mention of everybody, which may have no entry in `mentions`.
const ALL: &str = "@_all";

/// The mentions of one message.
#[derive(Debug, Default)]
pub(super) struct Mentions<'a>(Vec<Mention<'a>>);

/// One mentioned person or bot.
#[derive(Debug)]
struct Mention<'a> {
    key: &'a str,
    ids: Vec<&'a str>,
    name: &'a str,
}

impl<'a> Mentions<'a> {
    /// Reads the `mentions` of a message, the longest key first.
    pub(super) fn of(message: JsonView<'a>) -> Self {
        let mut mentions: Vec<Mention<'a>> = message
            .objects("mentions")
            .filter_map(|view| {
                let ids = match view.raw("id") {
                    Some(Value::Object(ids)) => user_ids(JsonView::of_map(ids)),
                    _ => view.id("id").into_iter().collect(),
                };
                let key = view.text("key").filter(|key| key.starts_with('@'))?;
                Some(Mention { key, ids, name: view.text("name").unwrap_or_default() })
            })
            .collect();
        mentions.sort_by_key(|mention| std::cmp::Reverse(mention.key.len()));
        Self(mentions)
    }

    /// Returns true if a single person or bot is mentioned.
    pub(super) fn is_of_somebody(&self) -> bool {
        self.0.iter().any(|mention| mention.key != ALL)
    }

    /// Returns true if the bot is mentioned; a mention of everybody does not count.
    pub(super) fn is_of(&self, bot: &Bot) -> bool {
        self.0.iter().any(|mention| mention.is_of(bot))
    }

    /// Returns the name for this id, if it is mentioned.
    pub(super) fn name_of(&self, id: &str) -> Option<&'a str> {
        let found = self.0.iter().find(|mention| mention.ids.contains(&id))?;
        Some(found.name).filter(|name| !name.is_empty())
    }

    /// Returns the key for the `id` in a rich text's mention: a key, an id, or `all`.
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

    /// Replaces keys in `text` by names. `@_user_10` is one key, not `@_user_1` followed by `0`.
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

    /// Removes white space and mentions of the bot at the start of `text`.
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

/// Returns true if `rest` starts with `key` and not with a longer key.
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
    fn keys_are_replaced_by_names() {
        let check = |names: &[(&str, &str)], text: &str, wanted: &str| {
            let message = message(names);
            assert_eq!(Mentions::of(JsonView::of(&message).unwrap()).named(text), wanted);
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
    fn the_bots_own_mention_is_removed_from_the_start() {
        let message = message(&[("@_user_1", "Annals"), ("@_user_2", "Bo")]);
        let mentions = Mentions::of(JsonView::of(&message).unwrap());
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
