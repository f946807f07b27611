//! A file to import: its format, and its content as it is read, item by item.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail, ensure};
use tokio::sync::mpsc::{Receiver, channel};

use super::item::Options;
use super::parsed::{Parsed, Take};
use super::{jsonl, telegram};

/// Length of the beginning of a file that tells its format.
const HEAD_BYTES: u64 = 64 * 1024;
/// Number of messages that are parsed before one is taken.
const PARSED_AHEAD: usize = 256;

/// A file whose content was looked at once, since a message may depend on what follows it.
#[derive(Clone, Debug)]
pub(super) struct Source {
    path: PathBuf,
    name: String,
    known: Known,
}

/// Survey of a file, by its format.
#[derive(Clone, Debug)]
enum Known {
    Messages(jsonl::Survey),
    Telegram(Arc<telegram::Survey>),
}

impl Source {
    /// Looks at the file once; parses no message.
    pub(super) fn survey(path: &Path, options: &Options) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let mut head = Vec::new();
        open(path, &name)?
            .take(HEAD_BYTES)
            .read_to_end(&mut head)
            .with_context(|| format!("failed to read {name}"))?;
        let shape = Shape::of(&head).with_context(|| format!("{name} is empty"))?;
        let known = Known::of(shape, &name, open(path, &name)?, options)?;
        Ok(Self { path: path.to_owned(), name, known })
    }

    /// Reads the content again, on a thread of its own. The last result is an error if there is one.
    pub(super) fn read(&self, options: &Options) -> Receiver<anyhow::Result<Parsed>> {
        let (sender, receiver) = channel(PARSED_AHEAD);
        let (source, options) = (self.clone(), options.clone());
        tokio::task::spawn_blocking(move || {
            let mut take = |parsed| sender.blocking_send(Ok(parsed)).map_err(|_| anyhow!("nobody reads on"));
            if let Err(error) = source.parse(&options, &mut take) {
                // Nobody is left to be told.
                drop(sender.blocking_send(Err(error)));
            }
        });
        receiver
    }

    fn parse(&self, options: &Options, take: Take<'_>) -> anyhow::Result<()> {
        self.known.parse(&self.name, open(&self.path, &self.name)?, options, take)
    }
}

impl Known {
    fn of(shape: Shape, name: &str, file: impl BufRead, options: &Options) -> anyhow::Result<Self> {
        Ok(match shape {
            Shape::Lines => Self::Messages(jsonl::Survey::of(false, name, file, options)?),
            Shape::Array => Self::Messages(jsonl::Survey::of(true, name, file, options)?),
            Shape::Whole => Self::Telegram(Arc::new(telegram::Survey::of(name, file, options)?)),
        })
    }

    fn parse(&self, name: &str, file: impl BufRead, options: &Options, take: Take<'_>) -> anyhow::Result<()> {
        match self {
            Self::Messages(survey) => jsonl::read(name, file, survey, options, take),
            Self::Telegram(survey) => telegram::read(name, file, survey, options, take),
        }
    }
}

/// Parses the content of a file, and returns the number of its entries. For the tests of hostile input.
#[doc(hidden)]
pub fn parse_all(content: &[u8], options: &Options) -> anyhow::Result<usize> {
    const NAME: &str = "file";
    let mut count = 0;
    let mut take = |_| {
        count += 1;
        Ok(())
    };
    let known = Known::of(Shape::of(content)?, NAME, content, options)?;
    known.parse(NAME, content, options, &mut take)?;
    Ok(count)
}

/// Opens a file, after its byte order mark if it has one.
fn open(path: &Path, name: &str) -> anyhow::Result<BufReader<File>> {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    let file = File::open(path).with_context(|| format!("failed to read {name}"))?;
    // A pipe is empty when it is read again.
    ensure!(
        file.metadata().is_ok_and(|about| about.is_file()),
        "{name} is not a regular file. An import reads it several times, so save the content of a pipe to a file first"
    );
    let mut file = BufReader::with_capacity(64 * 1024, file);
    if file.fill_buf().with_context(|| format!("failed to read {name}"))?.starts_with(MARK) {
        file.consume(MARK.len());
    }
    Ok(file)
}

/// Format of a file, by its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// A message a line.
    Lines,
    /// An array of messages.
    Array,
    /// A single object: Telegram's.
    Whole,
}

/// Fields of a message, and not of an export of Telegram Desktop. `id` is one of both, but not the first of an export.
const FIELDS_OF_MESSAGE: [&str; 4] = ["role", "parts", "metadata", "createdAt"];

impl Shape {
    /// Returns the format of a file that begins with `head`; an error if it is empty.
    fn of(head: &[u8]) -> anyhow::Result<Self> {
        let text = head.trim_ascii_start();
        match text.first() {
            None => bail!("it contains nothing"),
            Some(b'[') => return Ok(Self::Array),
            _ => {}
        }
        let fields = fields(text);
        let of_telegram = |field: &String| telegram::FIELDS.contains(&field.as_str());
        let of_message = |field: &String| FIELDS_OF_MESSAGE.contains(&field.as_str());
        let is_line = fields.first().is_some_and(|field| field == "id" || of_message(field))
            || (fields.iter().any(of_message) && !fields.iter().any(of_telegram));
        Ok(if is_line && !fields.iter().any(of_telegram) { Self::Lines } else { Self::Whole })
    }
}

/// Returns the fields of the object that `text` begins with, as far as it goes. It need not be valid.
fn fields(text: &[u8]) -> Vec<String> {
    let (mut fields, mut depth) = (Vec::new(), 0_usize);
    let mut string: Option<Vec<u8>> = None;
    let mut last = Vec::new();
    let mut is_escaped = false;
    for &byte in text {
        if let Some(open) = &mut string {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => last = string.take().unwrap_or_default(),
                // A text of JSON is on one line: the object is broken.
                b'\n' => break,
                _ => open.push(byte),
            }
            continue;
        }
        match byte {
            b'"' => string = Some(Vec::new()),
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth <= 1 => break,
            b'}' | b']' => depth -= 1,
            b':' if depth == 1 => fields.push(String::from_utf8_lossy(&last).into_owned()),
            b',' | b' ' | b'\t' | b'\r' | b'\n' => {}
            _ if depth == 0 => break,
            _ => {}
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_tells_the_format() {
        for (text, shape) in [
            ("{\"id\":\"a\",\"role\":\"user\",\"parts\":[]}\n{\"id\":\"b\"}", Shape::Lines),
            ("\n{ \"id\": \"a\" }", Shape::Lines),
            ("{\"id\":\"a\",\"role\"\n{\"id\":\"b\"}\n", Shape::Lines),
            ("{\"id\":\"a\", role}", Shape::Lines),
            ("{\"parts\":[{\"name\":\"messages\"}],\"id\":\"a\"}", Shape::Lines),
            ("[{\"id\":\"a\"}]", Shape::Array),
            ("[\n  {\n", Shape::Array),
            ("{\n \"name\": \"Ada\",", Shape::Whole),
            ("{\"name\": \"Ada\",\n \"type\": \"bot_chat\",", Shape::Whole),
            ("{\"name\":\"Ada\",\"id\":7,\"messages\":[]}", Shape::Whole),
            ("{\"id\":7,\"messages\":[]}", Shape::Whole),
            ("{\"about\":\"\",\"chats\":{\"list\":[]}}", Shape::Whole),
            ("{\"some\": \"JSON\"}", Shape::Whole),
            ("words", Shape::Whole),
        ] {
            assert_eq!(Shape::of(text.as_bytes()).unwrap(), shape, "{text}");
        }
        assert!(Shape::of(b" \r\n").is_err());
    }
}
