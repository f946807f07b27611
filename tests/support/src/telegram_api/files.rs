//! Files that people sent.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::refusal::{Refusal, refuse};
use crate::server::{Answer, picture, take};

/// The most that Telegram gives to bots.
const MAX_BYTES: usize = 20 * 1024 * 1024;

/// The files, and those that were asked for.
#[derive(Default)]
pub struct Files {
    /// Content that differs from the default [`picture`]; `None` if there is no such file: 400.
    pub set: HashMap<String, Option<Vec<u8>>>,
    /// The files that were asked for; each lies at its place here.
    asked: Vec<String>,
    /// So many files are answered with this status where they lie, though `getFile` says where that is.
    pub fail: (usize, u16),
}

impl Files {
    fn bytes(&self, id: &str) -> Option<Vec<u8>> {
        self.set.get(id).cloned().unwrap_or_else(|| Some(picture(id)))
    }

    /// `getFile`
    pub(super) fn get(&mut self, body: &Value) -> Result<Value, Refusal> {
        let Some(id) = body["file_id"].as_str().filter(|id| !id.is_empty()) else {
            return refuse(400, "Bad Request: file_id not specified");
        };
        let Some(bytes) = self.bytes(id) else { return refuse(400, "Bad Request: invalid file_id") };
        if bytes.len() > MAX_BYTES {
            return refuse(400, "Bad Request: file is too big");
        }
        self.asked.push(id.to_owned());
        let path = format!("photos/file_{}.jpg", self.asked.len() - 1);
        Ok(json!({"file_id": id, "file_unique_id": id, "file_size": bytes.len(), "file_path": path}))
    }

    /// Returns the content at `path`.
    pub(super) fn download(&mut self, path: &str) -> Answer {
        if take(&mut self.fail.0) {
            return Answer::page(self.fail.1, "<html>Bad Gateway</html>");
        }
        let number = path.strip_prefix("/photos/file_").and_then(|path| path.strip_suffix(".jpg"));
        let number = number.and_then(|number| number.parse::<usize>().ok());
        match number.and_then(|number| self.bytes(self.asked.get(number)?)) {
            Some(bytes) => Answer::new(200, "application/octet-stream", bytes),
            None => Answer::json(404, &json!({"ok": false, "error_code": 404, "description": "Not Found"})),
        }
    }
}
