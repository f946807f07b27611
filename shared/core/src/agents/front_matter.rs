//! Front matter of the files of a profile: a strict part of YAML, with the line of each value.
//!
//! ```text
//! ---
//! # A comment.
//! model: openai:gpt-5-mini
//! tools: [shop, memory_search]
//! description: >
//!   Several lines,
//!   joined by spaces.
//! limits:
//!   - each on a line
//! ---
//! The text.
//! ```
//!
//! A value is a text: there are no numbers, dates or booleans, so that nothing is read as something else.

/// A value, and the number of the line that it begins on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) line: usize,
    pub(super) key: String,
    pub(super) value: Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// A text, maybe empty.
    Text(String),
    /// A list, each with its line.
    List(Vec<(usize, String)>),
    /// Lines that are indented and neither a list nor a text: an inner mapping, which nothing here reads.
    Other,
}

/// A problem, and the number of its line.
pub(super) type Problem = (usize, String);

/// Splits a document into the fields of its front matter, none if it has no front matter, and its text.
pub(super) fn split(document: &str) -> Result<(Vec<Field>, String), Problem> {
    let document = document.trim_start_matches('\u{FEFF}');
    let lines: Vec<&str> = document.lines().map(str::trim_end).collect();
    if lines.first() != Some(&"---") {
        return Ok((Vec::new(), document.trim().to_owned()));
    }
    let end = lines.iter().skip(1).position(|line| *line == "---").map(|at| at + 1);
    let end = end.ok_or((1, "the front matter has no end: a line of '---'".to_owned()))?;
    let mut fields: Vec<Field> = Vec::new();
    let mut at = 1;
    while at < end {
        let (line, number) = (lines[at], at + 1);
        at += 1;
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with([' ', '\t']) {
            return Err((number, "an indented line belongs to no key".into()));
        }
        let (key, value) = line.split_once(':').ok_or((number, "must be 'key: value'".to_owned()))?;
        let (key, value) = (key.trim().to_owned(), value.trim());
        if fields.iter().any(|field| field.key == key) {
            return Err((number, format!("'{key}' is set twice")));
        }
        let from = at;
        let is_inner = |line: &str| line.is_empty() || line.starts_with([' ', '\t', '-']);
        while at < end && is_inner(lines[at]) {
            at += 1;
        }
        let inner: Vec<(usize, &str)> = (from..at)
            .map(|index| (index + 1, lines[index].trim()))
            .filter(|(_, line)| !line.is_empty())
            .collect();
        fields.push(Field { line: number, key, value: value_of(number, value, &inner)? });
    }
    Ok((fields, lines[end + 1..].join("\n").trim().to_owned()))
}

/// Returns the value of `text`, with the lines after it that belong to it.
fn value_of(number: usize, text: &str, inner: &[(usize, &str)]) -> Result<Value, Problem> {
    if let ">" | ">-" | "|" | "|-" = text {
        let separator = if text.starts_with('>') { " " } else { "\n" };
        let lines: Vec<&str> = inner.iter().map(|(_, line)| *line).collect();
        return Ok(Value::Text(lines.join(separator)));
    }
    if text.is_empty() && !inner.is_empty() {
        let item = |(number, line): &(usize, &str)| {
            let item = line.strip_prefix('-').filter(|rest| rest.is_empty() || rest.starts_with(' '))?;
            Some(unquoted(*number, item.trim()).map(|item| (*number, item)))
        };
        return match inner.iter().map(item).collect::<Option<Vec<_>>>() {
            Some(items) => items.into_iter().collect::<Result<_, _>>().map(Value::List),
            None => Ok(Value::Other),
        };
    }
    if let Some((number, _)) = inner.first() {
        return Err((*number, "an indented line belongs to no key".into()));
    }
    match text.strip_prefix('[') {
        Some(list) => {
            let list = list.strip_suffix(']').ok_or((number, "the list has no end: ']'".to_owned()))?;
            let items = list.split(',').map(str::trim).filter(|item| !item.is_empty());
            let items = items.map(|item| unquoted(number, item).map(|item| (number, item)));
            items.collect::<Result<_, _>>().map(Value::List)
        }
        None => unquoted(number, text).map(Value::Text),
    }
}

/// Removes quotes around a text.
fn unquoted(number: usize, text: &str) -> Result<String, Problem> {
    if text.starts_with('"') {
        return serde_json::from_str(text)
            .map_err(|_| (number, "the quoted text has no end, or more after it".into()));
    }
    if let Some(rest) = text.strip_prefix('\'') {
        let inner = rest.strip_suffix('\'').ok_or((number, "the quoted text has no end".to_owned()))?;
        return Ok(inner.replace("''", "'"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: usize, key: &str, value: &str) -> Field {
        Field { line, key: key.into(), value: Value::Text(value.into()) }
    }

    #[test]
    fn fields_have_their_lines() {
        let document = "---\n# who\nmodel: openai:gpt-5-mini\n\ntools: [shop, \"a b\"]\nmore:\n  - x\n- 'it''s'\nlong: >-\n  one\n  two\nwide: |\n  one\n  two\nmeta:\n  a: b\nempty:\n---\n\nHello.\n\n---\nStill text.\n";
        let (fields, body) = split(document).unwrap();
        let list = |line, key: &str, items: &[(usize, &str)]| Field {
            line,
            key: key.into(),
            value: Value::List(items.iter().map(|(line, item)| (*line, (*item).to_owned())).collect()),
        };
        assert_eq!(
            fields,
            [
                text(3, "model", "openai:gpt-5-mini"),
                list(5, "tools", &[(5, "shop"), (5, "a b")]),
                list(6, "more", &[(7, "x"), (8, "it's")]),
                text(9, "long", "one two"),
                text(12, "wide", "one\ntwo"),
                Field { line: 15, key: "meta".into(), value: Value::Other },
                text(17, "empty", ""),
            ]
        );
        assert_eq!(body, "Hello.\n\n---\nStill text.");
        assert_eq!(split("Hello.").unwrap(), (Vec::new(), "Hello.".into()));
    }

    #[test]
    fn errors_have_their_lines() {
        for (document, line) in [
            ("---\na: b\n", 1),
            ("---\na: b\nno colon\n---\n", 3),
            ("---\n  a: b\n---\n", 2),
            ("---\na: b\n  c\n---\n", 3),
            ("---\na: [b\n---\n", 2),
            ("---\na: \"b\n---\n", 2),
            ("---\na: 'b\n---\n", 2),
            ("---\na: b\na: c\n---\n", 3),
        ] {
            assert_eq!(split(document).unwrap_err().0, line, "{document:?}");
        }
    }
}
