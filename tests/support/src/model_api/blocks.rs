//! Common parts of Anthropic and Bedrock: blocks, and caches with explicit marks.

use base64::Engine;
use serde_json::Value;

use super::bad;
use super::check::says;
use super::wire::{Cached, Refusal, tokens};

/// Largest image of Bedrock, and of Anthropic in base64.
const MAX_IMAGE_BYTES: usize = 3_932_160;

/// Number of blocks before a mark in which the real APIs look for a cached prefix.
const LOOKS_BACK: usize = 20;

/// Checks that `value` is an object with the fields that it `needs` and no others than these `fields`.
pub(super) fn check_fields(
    place: &str,
    value: &Value,
    fields: &[&str],
    needs: &[&str],
) -> Result<(), Refusal> {
    let Some(object) = value.as_object() else { return Err(bad(format!("{place}: must be an object"))) };
    if let Some(field) = object.keys().find(|key| !fields.contains(&key.as_str())) {
        return Err(bad(format!("{place}.{field}: Extra inputs are not permitted")));
    }
    match needs.iter().find(|field| !object.contains_key(**field)) {
        Some(field) => Err(bad(format!("{place}.{field}: Field required"))),
        None => Ok(()),
    }
}

pub(super) fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Returns true if `id` matches `^[a-zA-Z0-9_-]{1,64}$`.
pub(super) fn is_id(id: &Value) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    id.as_str().is_some_and(|id| (1..=64).contains(&id.len()) && id.bytes().all(fits))
}

pub(super) fn check_image(media_type: &Value, data: &Value) -> bool {
    let types = ["image/jpeg", "image/png", "image/gif", "image/webp"];
    let is_base64 = |data: &str| {
        base64::engine::general_purpose::STANDARD
            .decode(data)
            .is_ok_and(|b| (1..=MAX_IMAGE_BYTES).contains(&b.len()))
    };
    media_type.as_str().is_some_and(|media_type| types.contains(&media_type))
        && data.as_str().is_some_and(is_base64)
}

/// Checks the schema of a tool by Claude's rules, which both providers share.
pub(super) fn check_root(schema: &Value) -> Result<(), Refusal> {
    if says(schema, &["oneOf", "allOf", "anyOf"]) {
        return Err(bad("input_schema does not support oneOf, allOf, or anyOf at the top level"));
    }
    Ok(())
}

/// Checks that `value` contains at most this number of marks of this name.
pub(super) fn check_mark_count(value: &Value, name: &str, most: usize) -> Result<(), Refusal> {
    fn count(value: &Value, name: &str) -> usize {
        match value {
            Value::Array(values) => values.iter().map(|value| count(value, name)).sum(),
            Value::Object(map) => {
                map.iter().map(|(key, value)| usize::from(key == name) + count(value, name)).sum()
            }
            _ => 0,
        }
    }
    let marks = count(value, name);
    if marks > most {
        return Err(bad(format!("A maximum of {most} blocks with {name} may be provided. Found {marks}.")));
    }
    Ok(())
}

/// The cache of a provider.
#[derive(Default)]
pub(super) struct Cache(Vec<Vec<String>>);

impl Cache {
    /// Returns the cached part of `blocks`, and caches them up to the last of `marks`, which are counts of
    /// blocks.
    pub(super) fn read(&mut self, blocks: &[String], marks: &[usize]) -> Cached {
        let size = |count: usize| blocks[..count].iter().map(|block| tokens(block)).sum::<u64>();
        let is_near = |kept: usize| marks.iter().any(|mark| kept <= *mark && mark - kept <= LOOKS_BACK);
        let known =
            self.0.iter().filter(|kept| is_near(kept.len()) && blocks.starts_with(kept)).map(Vec::len).max();
        let known = known.unwrap_or_default();
        let last = marks.iter().copied().max().unwrap_or_default();
        self.0.extend(marks.iter().map(|mark| blocks[..*mark].to_vec()));
        Cached { read: size(known), written: size(last.max(known)) - size(known) }
    }

    /// Reads and caches `text`, for a provider that caches everything and finds the longest cached prefix.
    pub(super) fn read_all(&mut self, text: String) -> Cached {
        let common = |kept: &str| {
            let same = text.bytes().zip(kept.bytes()).take_while(|(a, b)| a == b).count();
            (0..=same).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default()
        };
        let known = self.0.iter().map(|kept| common(&kept[0])).max().unwrap_or_default();
        let read = tokens(&text[..known]);
        self.0.push(vec![text]);
        Cached { read, written: 0 }
    }
}

/// Returns the blocks of a request in the order in which a provider reads them (tools, system part, messages), and the
/// marks among them. `mark` removes a block's mark, or reports that the block is only a mark.
pub(super) fn in_order(
    parts: [&Value; 3],
    mut mark: impl FnMut(&mut Value) -> Mark,
) -> (Vec<String>, Vec<usize>) {
    let (mut blocks, mut marks) = (Vec::new(), Vec::new());
    let [tools, system, messages] = parts;
    let mut add = |role: &str, block: &Value| {
        let mut block = block.clone();
        let mark = mark(&mut block);
        if mark != Mark::Alone {
            blocks.push(format!("{role}{block}"));
        }
        if mark != Mark::None {
            marks.push(blocks.len());
        }
    };
    for (name, list) in [("tool", tools), ("system", system)] {
        match list {
            Value::Array(list) => list.iter().for_each(|block| add(name, block)),
            Value::Null => {}
            block => add(name, block),
        }
    }
    for message in messages.as_array().into_iter().flatten() {
        let role = message["role"].as_str().unwrap_or_default();
        match &message["content"] {
            Value::Array(content) => content.iter().for_each(|block| add(role, block)),
            content => add(role, content),
        }
    }
    (blocks, marks)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    None,
    /// The block has a mark.
    On,
    /// The block is only a mark.
    Alone,
}
