//! The commands that `setup discord` registers: [`commands`], and their text as
//! people would type it elsewhere.
//!
//! Source: <https://discord.com/developers/docs/interactions/application-commands>.

use annals_channel::json::JsonView;
use annals_core::command;
use serde_json::{Value, json};

/// Name of the command that asks.
pub const ASK: &str = "ask";
/// Name of the entry in the menu of a message.
pub const ANSWER_THIS: &str = "Answer this";

/// Types of options.
const STRING: u8 = 3;
const INTEGER: u8 = 4;
const BOOLEAN: u8 = 5;
const ATTACHMENT: u8 = 11;

/// Longest description.
const MAX_DESCRIPTION_CHARS: usize = 100;

/// An option of a command: name, type, if it is required, description.
type CommandOption = (&'static str, u8, bool, &'static str);

/// Returns the options of a command, in the order in which people would type them.
fn options(name: &str) -> &'static [CommandOption] {
    match name {
        ASK => &[
            ("prompt", STRING, true, "your question"),
            ("file", ATTACHMENT, false, "a file that it is about"),
        ],
        "new" => &[("message", STRING, false, "first message of the new conversation")],
        "compact" => &[("focus", STRING, false, "what the summary must keep")],
        "memory" => &[
            ("undo", BOOLEAN, false, "bring back what the bot changed"),
            ("number", INTEGER, false, "number in the list"),
        ],
        "forget" => &[("number", INTEGER, true, "number in the list of /memory")],
        "approve" => &[("which", STRING, false, "number or code of the request, or all")],
        "deny" => &[
            ("which", STRING, false, "number or code of the request, or all"),
            ("reason", STRING, false, "reason for the bot"),
        ],
        "link" => &[("code", STRING, false, "code from another channel, or yes or no")],
        _ => &[],
    }
}

/// Returns the commands to register, for servers and users, in every kind of chat.
pub fn commands() -> Vec<Value> {
    let own = [(ASK, "ask a question")];
    let typed = own.into_iter().chain(command::menu()).map(|(name, description)| {
        let options = options(name).iter().map(|(name, kind, required, description)| {
            json!({"name": name, "type": kind, "required": required, "description": description})
        });
        let description: String = description.chars().take(MAX_DESCRIPTION_CHARS).collect();
        json!({"type": 1, "name": name, "description": description, "options": options.collect::<Vec<_>>()})
    });
    let all = typed.chain([json!({"type": 3, "name": ANSWER_THIS})]);
    all.map(|mut command| {
        command["integration_types"] = json!([0, 1]);
        command["contexts"] = json!([0, 1, 2]);
        command
    })
    .collect()
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

    use super::*;

    #[test]
    fn every_registered_command_is_read_with_all_its_options() {
        let names: Vec<Value> = commands().iter().map(|command| command["name"].clone()).collect();
        let wanted =
            ["new", "reset", "compact", "memory", "forget", "stop", "approve", "deny", "link", "unlink"];
        for wanted in wanted.into_iter().chain([ASK]) {
            assert!(names.iter().any(|name| name == wanted), "{wanted} is not registered");
        }
        for command in commands().iter().filter(|command| command["type"] == 1 && command["name"] != ASK) {
            let name = command["name"].as_str().unwrap();
            assert!(Command::parse(&format!("/{name}"), None).is_some(), "{name} is registered but not read");
            assert!(command["description"].as_str().unwrap().len() <= 100);
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
        check("new", json!([{"name": "message", "type": 3, "value": "hello there"}]), "/new hello there");
    }
}
