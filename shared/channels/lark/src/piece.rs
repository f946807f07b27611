//! Pieces of a message, texts and files: [`Piece`].

use annals_core::message::Part;
use annals_core::sort_key::MessageId;
use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Text, with the keys of its mentions.
    Text(String),
    /// A medium.
    File(File),
}

impl Piece {
    /// Returns the text, or a line with kind and name of the file.
    pub(super) fn line(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::File(file) => file.line(),
        }
    }
}

/// A file of a message, as Lark names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct File {
    /// True if Lark stores it as a picture.
    is_image: bool,
    key: String,
    media_type: &'static str,
    name: Option<String>,
    pub(super) duration_ms: Option<u64>,
}

impl File {
    /// A picture. Lark does not give its format.
    pub(super) fn image(key: &str) -> Self {
        Self { is_image: true, key: key.into(), media_type: "image/*", name: None, duration_ms: None }
    }

    /// A file. Its media type follows from the extension of `name`, or is `media_type` if that is unknown.
    pub(super) fn of(key: &str, media_type: &'static str, name: Option<&str>) -> Self {
        let end = name.and_then(|name| name.rsplit_once('.')).map(|(_, end)| end.to_ascii_lowercase());
        let known = MEDIA_TYPES.iter().find(|(known, _)| Some(*known) == end.as_deref());
        let media_type = known.map_or(media_type, |(_, media_type)| media_type);
        Self {
            is_image: false,
            key: key.into(),
            media_type,
            name: name.map(str::to_owned),
            duration_ms: None,
        }
    }

    /// Returns the file part. `providerMetadata.lark` has the parameters for downloading the resource: `messageId`, the
    /// key, and `type`.
    pub(super) fn part(&self, message_id: &MessageId) -> Part {
        let (key, kind) = if self.is_image { ("imageKey", "image") } else { ("fileKey", "file") };
        let mut lark = Map::new();
        lark.insert(key.into(), self.key.as_str().into());
        lark.insert("messageId".into(), message_id.as_str().into());
        lark.insert("type".into(), kind.into());
        if let Some(duration) = self.duration_ms {
            lark.insert("durationMs".into(), duration.into());
        }
        let url = format!("lark:{message_id}/{}", self.key);
        Part::file(self.media_type, self.name.as_deref(), url, ("lark", &Value::Object(lark)))
    }

    fn line(&self) -> String {
        let kind =
            self.media_type.split('/').next().filter(|kind| matches!(*kind, "image" | "audio" | "video"));
        bracketed(kind.unwrap_or("file"), self.name.as_deref())
    }
}

/// Media types by file extension.
const MEDIA_TYPES: &[(&str, &str)] = &[
    ("csv", "text/csv"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("gif", "image/gif"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("json", "application/json"),
    ("m4a", "audio/mp4"),
    ("md", "text/markdown"),
    ("mov", "video/quicktime"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("ogg", "audio/ogg"),
    ("opus", "audio/ogg"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ("txt", "text/plain"),
    ("wav", "audio/wav"),
    ("webp", "image/webp"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("zip", "application/zip"),
];

/// Returns `[head]`, or `[head: details]`.
pub(super) fn bracketed(head: &str, details: Option<&str>) -> String {
    match details.filter(|details| !details.is_empty()) {
        Some(details) => format!("[{head}: {details}]"),
        None => format!("[{head}]"),
    }
}
