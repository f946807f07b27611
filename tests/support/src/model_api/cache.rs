//! The caches of the providers' prompts.

use std::collections::BTreeSet;

use serde_json::Value;

use super::api::Api;
use super::body::tokens;

/// Tokens of a prompt read from a cache and written to it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cached {
    pub(super) read: u64,
    pub(super) written: u64,
}

/// Number of blocks before a mark in which the real APIs look for a cached prefix.
const LOOKS_BACK: usize = 20;

/// The mark of a block: the prompt is cached up to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    None,
    /// The block has a mark.
    On,
    /// The block is only a mark.
    Alone,
}

/// The cache of a provider.
#[derive(Default)]
pub(super) struct Cache {
    /// Whole requests, for a provider that caches everything.
    whole: BTreeSet<String>,
    /// The blocks up to each mark.
    marked: Vec<Vec<String>>,
}

impl Cache {
    /// Returns the tokens of a request known from earlier ones, and caches it for later ones.
    pub(super) fn read(&mut self, api: &dyn Api, raw: &Value) -> Cached {
        let parts = api.prompt(raw);
        let Some(take_mark) = api.take_mark() else {
            let [tools, system, messages] = parts;
            let system = if system.is_null() { String::new() } else { system.to_string() };
            return self.read_all(format!("{tools}{system}{messages}"));
        };
        let (blocks, marks) = in_order(parts, take_mark);
        self.read_marked(&blocks, &marks)
    }

    /// Returns the cached part of `blocks`, and caches them up to the last of `marks`, which are counts of
    /// blocks.
    fn read_marked(&mut self, blocks: &[String], marks: &[usize]) -> Cached {
        let size = |count: usize| blocks[..count].iter().map(|block| tokens(block)).sum::<u64>();
        let is_near = |kept: usize| marks.iter().any(|mark| kept <= *mark && mark - kept <= LOOKS_BACK);
        let kept = self.marked.iter().filter(|kept| is_near(kept.len()) && blocks.starts_with(kept));
        let known = kept.map(Vec::len).max().unwrap_or_default();
        let last = marks.iter().copied().max().unwrap_or_default();
        self.marked.extend(marks.iter().map(|mark| blocks[..*mark].to_vec()));
        Cached { read: size(known), written: size(last.max(known)) - size(known) }
    }

    /// Reads and caches `text`, for a provider that caches everything and finds the longest cached prefix: that of a
    /// neighbour in the order of texts.
    fn read_all(&mut self, text: String) -> Cached {
        let common = |kept: &String| {
            let same = text.bytes().zip(kept.bytes()).take_while(|(a, b)| a == b).count();
            (0..=same).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default()
        };
        let neighbours = [
            self.whole.range::<String, _>(..&text).next_back(),
            self.whole.range::<String, _>(&text..).next(),
        ];
        let known = neighbours.into_iter().flatten().map(common).max().unwrap_or_default();
        let read = tokens(&text[..known]);
        self.whole.insert(text);
        Cached { read, written: 0 }
    }
}

/// Returns the blocks of [`Api::prompt`], and the marks among them.
fn in_order(parts: [&Value; 3], take_mark: fn(&mut Value) -> Mark) -> (Vec<String>, Vec<usize>) {
    let (mut blocks, mut marks) = (Vec::new(), Vec::new());
    let [tools, system, messages] = parts;
    let mut add = |role: &str, block: &Value| {
        let mut block = block.clone();
        let mark = take_mark(&mut block);
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
