//! The description of an agent: [`Profile`], read from the files of its folder.
//!
//! ```text
//! agents/support/Agent.md                       ---
//!                                               model: openai:gpt-5-mini
//!                                               tools: [shop, memory_search]
//!                                               language: zh
//!                                               ---
//!                                               You answer questions about orders.
//! agents/support/skills/refunds/SKILL.md        ---
//!                                               name: refunds
//!                                               description: How refunds are made, and by whom
//!                                               ---
//!                                               1. Look the order up. …
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::front_matter::{Field, Value, split};
use crate::language::Language;

/// Name of the file that says who an agent is.
pub const AGENT_FILE: &str = "Agent.md";

/// Longest file, in bytes.
pub const MAX_FILE_BYTES: usize = 64 * 1024;

/// Maximum number of skills of an agent.
pub const MAX_SKILLS: usize = 32;

/// Longest description of a skill, in characters. Each request has all of them.
const MAX_DESCRIPTION_CHARS: usize = 1024;

/// Longest text of a skill, in bytes: a call has room for some 4,000 tokens.
const MAX_SKILL_BYTES: usize = 12 * 1024;

/// Maximum number of rounds of calls that a profile may give a turn: that of a turn without a profile.
const MAX_ROUNDS: u32 = 8;

/// Start of the list of skills in the system prompt.
const SKILLS: &str =
    "You have these skills. Load one with the tool skills_load before you do what it describes:";

/// An agent of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// The agent's id: the name of the folder.
    pub id: String,
    /// The system prompt: the text of `Agent.md`, and the list of skills.
    pub prompt: String,
    /// `model`: name of the model that answers, as in `MODEL`.
    pub model: Option<Named>,
    /// `tools`: the tools that the agent is offered; `None` for all.
    pub tools: Option<Vec<Named>>,
    /// `limits`: maximum number of rounds of calls in a turn.
    pub rounds: Option<u32>,
    /// `language`: the language of the bot's own texts.
    pub language: Option<Language>,
    pub skills: Vec<Skill>,
}

/// A name in `Agent.md`, with its place for errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub name: String,
    /// File and line.
    at: String,
    line: usize,
}

impl Named {
    /// Returns the error that the name cannot be used.
    pub fn refused(&self, problem: impl Into<String>) -> ProfileError {
        ProfileError { path: self.at.clone(), line: self.line, problem: problem.into() }
    }
}

/// Instructions that an agent loads when it needs them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// The name: that of its folder.
    pub name: String,
    pub text: String,
}

/// A file of a profile that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}:{line}: {problem}")]
pub struct ProfileError {
    path: String,
    line: usize,
    problem: String,
}

/// Returns true if the file at `path` in an agent's folder is read.
pub fn is_read(path: &str) -> bool {
    path == AGENT_FILE || skill_of(path).is_some()
}

/// Returns the skill whose file is at `path` in an agent's folder.
fn skill_of(path: &str) -> Option<&str> {
    let name = path.strip_prefix("skills/")?.strip_suffix("/SKILL.md")?;
    (!name.contains('/')).then_some(name)
}

impl Profile {
    /// Reads the profile of the agent `id` from the files of its folder at `place`, by their paths in it. Only
    /// [`AGENT_FILE`] and `skills/<name>/SKILL.md` are looked at.
    /// Fails with the file and line of the first problem.
    pub fn parse(place: &str, id: &str, files: &BTreeMap<String, String>) -> Result<Self, ProfileError> {
        let place = place.trim_end_matches('/');
        let path = |file: &str| format!("{place}/{id}/{file}");
        let agent_path = path(AGENT_FILE);
        let wrong = |line: usize, problem: &str| ProfileError {
            path: agent_path.clone(),
            line,
            problem: problem.to_owned(),
        };
        let document = files
            .get(AGENT_FILE)
            .ok_or_else(|| wrong(1, "the file is missing: say in it who the agent is"))?;
        let (fields, text) = read(&agent_path, document)?;
        if text.is_empty() {
            return Err(wrong(document.lines().count().max(1), "has no text: say who the agent is"));
        }
        let mut profile = Self { id: id.to_owned(), prompt: text, ..Self::default() };
        for Field { line, key, value } in fields {
            let named = |name: String, line| Named { name, at: agent_path.clone(), line };
            match (key.as_str(), value) {
                ("model", Value::Text(name)) if !name.is_empty() => profile.model = Some(named(name, line)),
                ("tools", Value::List(tools)) => {
                    profile.tools = Some(tools.into_iter().map(|(line, tool)| named(tool, line)).collect());
                }
                ("language", Value::Text(code)) => {
                    let language = Language::ALL.into_iter().find(|language| language.code() == code);
                    profile.language = Some(language.ok_or_else(|| {
                        let known = Language::ALL.map(Language::code).join(", ");
                        wrong(line, &format!("'language' must be one of: {known}"))
                    })?);
                }
                ("limits", Value::List(limits)) => {
                    for (line, limit) in limits {
                        let rounds =
                            limit.strip_prefix("rounds=").and_then(|rounds| rounds.trim().parse().ok());
                        let rounds = rounds.filter(|rounds| *rounds <= MAX_ROUNDS).ok_or_else(|| {
                            wrong(line, &format!("a limit must be 'rounds=<0 to {MAX_ROUNDS}>'"))
                        })?;
                        profile.rounds = Some(rounds);
                    }
                }
                ("model" | "language", _) => return Err(wrong(line, &format!("'{key}' must be a text"))),
                ("tools" | "limits", _) => {
                    return Err(wrong(line, &format!("'{key}' must be a list: [a, b]")));
                }
                _ => {
                    let problem = format!("unknown key '{key}': known are model, tools, limits, language");
                    return Err(wrong(line, &problem));
                }
            }
        }
        for (file, document) in files {
            if let Some(name) = skill_of(file) {
                profile.add_skill(&path(file), name, document)?;
            }
        }
        Ok(profile)
    }

    /// Adds the skill of the folder `name`, and its line in the prompt.
    fn add_skill(&mut self, path: &str, name: &str, document: &str) -> Result<(), ProfileError> {
        let wrong = |line: usize, problem: String| ProfileError { path: path.to_owned(), line, problem };
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if !(1..=64).contains(&name.len()) || !name.chars().all(is_part) {
            return Err(wrong(1, "the folder's name must be 1 to 64 of a-z, 0-9 and '-'".into()));
        }
        if self.skills.len() == MAX_SKILLS {
            return Err(wrong(1, format!("an agent has at most {MAX_SKILLS} skills")));
        }
        let (fields, text) = read(path, document)?;
        // Other keys are for other programs that load skills.
        let field = |key: &str| {
            let field = fields.iter().find(|field| field.key == key);
            let field = field.ok_or_else(|| wrong(1, format!("the front matter has no '{key}'")))?;
            match &field.value {
                Value::Text(text) if !text.trim().is_empty() => Ok((field.line, text.trim().to_owned())),
                _ => Err(wrong(field.line, format!("'{key}' must be a text"))),
            }
        };
        let (line, named) = field("name")?;
        if named != name {
            return Err(wrong(line, format!("'name' must be that of the folder, '{name}'")));
        }
        let (line, description) = field("description")?;
        if description.chars().count() > MAX_DESCRIPTION_CHARS {
            return Err(wrong(
                line,
                format!("'description' has more than {MAX_DESCRIPTION_CHARS} characters"),
            ));
        }
        if text.is_empty() || text.len() > MAX_SKILL_BYTES {
            return Err(wrong(1, format!("the text must have 1 to {MAX_SKILL_BYTES} bytes")));
        }
        if self.skills.is_empty() {
            let _ = write!(self.prompt, "\n\n{SKILLS}");
        }
        let description = description.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = write!(self.prompt, "\n- {name}: {description}");
        self.skills.push(Skill { name: name.to_owned(), text });
        Ok(())
    }
}

/// Reads the front matter and the text of a file.
fn read(path: &str, document: &str) -> Result<(Vec<Field>, String), ProfileError> {
    if document.len() > MAX_FILE_BYTES {
        let problem = format!("has more than {MAX_FILE_BYTES} bytes");
        return Err(ProfileError { path: path.to_owned(), line: 1, problem });
    }
    split(document).map_err(|(line, problem)| ProfileError { path: path.to_owned(), line, problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(files: &[(&str, &str)]) -> Result<Profile, String> {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        Profile::parse("agents/", "support", &files).map_err(|error| error.to_string())
    }

    const SKILL: &str =
        "---\nname: refunds\ndescription: >\n  How refunds\n  are made\nlicense: MIT\n---\nLook it up.";

    #[test]
    fn a_profile_is_its_text_with_its_skills() {
        let agent = "---\nmodel: openai:m\ntools:\n- shop\n- memory_search\nlimits: [rounds=2]\nlanguage: zh\n---\nYou help.\n";
        let profile = parse(&[
            (AGENT_FILE, agent),
            ("skills/refunds/SKILL.md", SKILL),
            ("skills/refunds/notes.md", "x"),
        ]);
        let profile = profile.unwrap();
        assert_eq!(
            profile.prompt,
            "You help.\n\nYou have these skills. Load one with the tool skills_load before you do what it describes:\
             \n- refunds: How refunds are made"
        );
        assert_eq!(profile.skills, [Skill { name: "refunds".into(), text: "Look it up.".into() }]);
        let tools: Vec<String> = profile.tools.unwrap().into_iter().map(|tool| tool.name).collect();
        assert_eq!(tools, ["shop", "memory_search"]);
        assert_eq!((profile.language, profile.rounds), (Some(Language::Zh), Some(2)));
        let refused = profile.model.unwrap().refused("is not known").to_string();
        assert_eq!(refused, "agents/support/Agent.md:2: is not known");
        let plain = parse(&[(AGENT_FILE, "You help.")]).unwrap();
        assert_eq!((plain.prompt.as_str(), plain.tools, plain.model), ("You help.", None, None));
    }

    #[test]
    fn errors_name_file_and_line() {
        let skill =
            |text: &str| parse(&[(AGENT_FILE, "You help."), ("skills/refunds/SKILL.md", text)]).unwrap_err();
        let agent = |text: &str| parse(&[(AGENT_FILE, text)]).unwrap_err();
        for (error, wanted) in [
            (parse(&[]).unwrap_err(), "agents/support/Agent.md:1: the file is missing"),
            (agent("---\nmodel: m\n---\n"), "agents/support/Agent.md:3: has no text"),
            (agent("---\nmodel: m\n\nmodle: m\n---\nx"), "agents/support/Agent.md:4: unknown key 'modle'"),
            (agent("---\ntools: shop\n---\nx"), "agents/support/Agent.md:2: 'tools' must be a list"),
            (
                agent("---\nlanguage: fr\n---\nx"),
                "agents/support/Agent.md:2: 'language' must be one of: en, zh",
            ),
            (
                agent("---\nlimits:\n- rounds=2\n- rounds=9\n---\nx"),
                "agents/support/Agent.md:4: a limit must be",
            ),
            (agent(&"x".repeat(MAX_FILE_BYTES + 1)), "agents/support/Agent.md:1: has more than"),
            (
                skill("Look it up."),
                "agents/support/skills/refunds/SKILL.md:1: the front matter has no 'name'",
            ),
            (skill("---\nname: x\n---\n"), "agents/support/skills/refunds/SKILL.md:2: 'name' must be"),
            (
                skill("---\nname: refunds\n---\nx"),
                "agents/support/skills/refunds/SKILL.md:1: the front matter has no 'desc",
            ),
            (
                skill("---\nname: refunds\ndescription: y\n---\n"),
                "agents/support/skills/refunds/SKILL.md:1: the text",
            ),
            (
                parse(&[(AGENT_FILE, "x"), ("skills/Re funds/SKILL.md", SKILL)]).unwrap_err(),
                "agents/support/skills/Re funds/SKILL.md:1: the folder's name",
            ),
        ] {
            assert!(error.starts_with(wanted), "{error}");
        }
    }
}
