//! The commands that `setup discord` registers: [`commands`], and their text as
//! people would type it elsewhere.
//!
//! Source: <https://discord.com/developers/docs/interactions/application-commands>.

use annals_channel::json::JsonView;
use annals_core::command;
use annals_core::language::Language;
use annals_core::texts::{CommandOption, Plain, Texts};
use serde_json::{Value, json};

/// Name of the command that asks.
pub const ASK: &str = "ask";

/// Types of options.
const STRING: u8 = 3;
const INTEGER: u8 = 4;
const BOOLEAN: u8 = 5;
const ATTACHMENT: u8 = 11;

/// Longest description.
const MAX_DESCRIPTION_CHARS: usize = 100;

/// An option of a command: name, type, if it is required, description.
type Described = (&'static str, u8, bool, CommandOption);

/// Returns the options of a command, in the order in which people would type them.
fn options(name: &str) -> &'static [Described] {
    match name {
        ASK => &[
            ("prompt", STRING, true, CommandOption::Prompt),
            ("file", ATTACHMENT, false, CommandOption::File),
        ],
        "new" => &[("message", STRING, false, CommandOption::FirstMessage)],
        "compact" => &[("focus", STRING, false, CommandOption::Focus)],
        "memory" => &[
            ("undo", BOOLEAN, false, CommandOption::Undo),
            ("number", INTEGER, false, CommandOption::Number),
        ],
        "forget" => &[("number", INTEGER, true, CommandOption::EntryNumber)],
        "approve" => &[("which", STRING, false, CommandOption::Which)],
        "deny" => &[
            ("which", STRING, false, CommandOption::Which),
            ("reason", STRING, false, CommandOption::Reason),
        ],
        "remind" => &[("reminder", STRING, false, CommandOption::Reminder)],
        "link" => &[("code", STRING, false, CommandOption::Code)],
        "timezone" => &[("zone", STRING, false, CommandOption::TimeZone)],
        _ => &[],
    }
}

/// Returns the commands to register, for servers and users, in every kind of chat: described in `language` for everybody, or
/// with `None` in English, and to people of each other language in theirs.
pub fn commands(language: Option<Language>) -> Vec<Value> {
    let typed = |texts: &'static dyn Texts| [(ASK, texts.ask())].into_iter().chain(command::menu(texts));
    let names = typed(Language::En.texts()).map(|(name, _)| name);
    let commands = names.map(|name| {
        let described = |texts: &'static dyn Texts| {
            typed(texts).find(|(own, _)| *own == name).map_or("", |(_, description)| description)
        };
        let options = options(name).iter().map(|(name, kind, required, option)| {
            let text = localized("description", language, |texts| texts.option(*option));
            with(json!({"name": name, "type": kind, "required": required}), text)
        });
        let options: Vec<Value> = options.collect();
        with(
            json!({"type": 1, "name": name, "options": options}),
            localized("description", language, described),
        )
    });
    let menu = with(json!({"type": 3}), localized("name", language, Plain::answer_this));
    commands
        .chain([menu])
        .map(|command| with(command, json!({"integration_types": [0, 1], "contexts": [0, 1, 2]})))
        .collect()
}

/// Returns the field `name` in `language`, or with `None` in English, with `<name>_localizations` for the others.
fn localized(
    name: &str,
    language: Option<Language>,
    text: impl Fn(&'static dyn Texts) -> &'static str,
) -> Value {
    let shortened = |language: Language| -> String {
        text(language.texts()).chars().take(MAX_DESCRIPTION_CHARS).collect()
    };
    let mut fields = json!({name: shortened(language.unwrap_or(Language::En))});
    if language.is_none() {
        let all = Language::ALL.into_iter();
        let locales =
            all.flat_map(|own| own.texts().discord_locales().iter().map(move |locale| (*locale, own)));
        let others = locales.map(|(locale, own)| (locale.to_owned(), shortened(own).into()));
        fields[format!("{name}_localizations")] = Value::Object(others.collect());
    }
    fields
}

/// Adds the `fields` to `command`.
fn with(mut command: Value, fields: Value) -> Value {
    if let (Some(command), Value::Object(fields)) = (command.as_object_mut(), fields) {
        command.extend(fields);
    }
    command
}

/// Returns the command of an interaction as text, such as `/deny 2 too much`.
pub(super) fn typed(name: &str, data: JsonView<'_>) -> String {
    let known = options(name);
    let place = |option: &JsonView<'_>| {
        known.iter().position(|(known, ..)| option.text("name") == Some(known)).unwrap_or(known.len())
    };
    let mut given: Vec<JsonView<'_>> = data.objects("options").collect();
    given.sort_by_key(place);
    let words = given.into_iter().filter_map(|option| match option.raw("value")? {
        Value::Bool(true) => option.text("name").map(str::to_owned),
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    });
    [format!("/{name}")].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use annals_core::command::Command;
    use annals_core::command::name::CommandName;

    use super::*;

    #[test]
    fn every_registered_command_is_read_with_all_its_options() {
        let names: Vec<Value> = commands(None).iter().map(|command| command["name"].clone()).collect();
        for wanted in CommandName::ALL.iter().map(|command| command.as_str()).chain([ASK]) {
            assert!(names.iter().any(|name| name == wanted), "{wanted} is not registered");
        }
        for command in commands(None).iter().filter(|command| command["type"] == 1 && command["name"] != ASK)
        {
            let name = command["name"].as_str().unwrap();
            assert!(Command::parse(&format!("/{name}"), None).is_some(), "{name} is registered but not read");
            assert!(command["description"].as_str().unwrap().len() <= 100);
            let chinese = command["description_localizations"]["zh-CN"].as_str().unwrap();
            assert!(chinese.chars().count() <= 100 && Language::of_script(chinese) == Some(Language::Zh));
            assert_eq!(
                (&command["contexts"], &command["integration_types"]),
                (&json!([0, 1, 2]), &json!([0, 1]))
            );
        }
    }

    #[test]
    fn options_become_the_text_that_people_would_type() {
        let check = |name: &str, options: Value, wanted: &str| {
            let data = json!({"name": name, "options": options});
            assert_eq!(typed(name, JsonView::of(&data).unwrap()), wanted);
        };
        check("reset", json!([]), "/reset");
        let reason = json!({"name": "reason", "type": 3, "value": "too much"});
        check("deny", json!([reason, {"name": "which", "type": 3, "value": "2"}]), "/deny 2 too much");
        let number = json!({"name": "number", "type": 4, "value": 3});
        check("memory", json!([number, {"name": "undo", "type": 5, "value": true}]), "/memory undo 3");
        check("memory", json!([{"name": "undo", "type": 5, "value": false}]), "/memory");
        check(
            "timezone",
            json!([{"name": "zone", "type": 3, "value": "Asia/Shanghai"}]),
            "/timezone Asia/Shanghai",
        );
        check("new", json!([{"name": "message", "type": 3, "value": "hello there"}]), "/new hello there");
    }
}
