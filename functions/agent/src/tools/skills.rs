//! `skills_load`: the instructions of a skill, whose name and description the system prompt has.

use annals_core::agents::{Profile, Skill};
use annals_model::Tool;
use serde_json::{Value, json};

use super::result::Output;

/// The tool's name.
pub(crate) const LOAD: &str = "skills_load";

/// Returns the tool, for agents with skills.
pub(crate) fn tool(profile: &Profile) -> Option<Tool> {
    if profile.skills.is_empty() {
        return None;
    }
    let names: Vec<&str> = profile.skills.iter().map(|skill| skill.name.as_str()).collect();
    Some(Tool::new(
        LOAD,
        "Loads one of your skills: instructions for a kind of work. Load it before that work, and follow it.",
        json!({"name": {"type": "string", "enum": names, "description": "the skill"}}),
        &["name"],
    ))
}

/// Carries out a call with `input`.
pub(crate) fn load(profile: &Profile, input: &Value) -> Output {
    let name = input["name"].as_str().unwrap_or_default();
    let skill = profile.skills.iter().find(|skill| skill.name == name);
    let Some(Skill { name, text }) = skill else {
        return Err(format!("there is no skill {name:?}"));
    };
    Ok(json!({"name": name, "instructions": text}))
}
