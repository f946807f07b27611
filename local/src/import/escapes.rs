//! Escapes such as `\x1F`, which Telegram Desktop writes for control characters and JSON does not have.

use std::io::{BufRead, Read};

/// Reads a file with `\u001F` in place of `\x1F`.
pub(super) struct JsonEscapes<R> {
    file: R,
    /// True after a backslash that begins an escape.
    is_escape: bool,
    /// Bytes that are read before the file goes on.
    inserted: &'static [u8],
}

impl<R> JsonEscapes<R> {
    pub(super) fn new(file: R) -> Self {
        Self { file, is_escape: false, inserted: b"" }
    }
}

impl<R: BufRead> Read for JsonEscapes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if !self.inserted.is_empty() {
            return self.inserted.read(buffer);
        }
        let available = self.file.fill_buf()?;
        let available = available.get(..buffer.len()).unwrap_or(available);
        let mut count = 0;
        for &byte in available {
            if self.is_escape && byte == b'x' {
                self.inserted = b"u00";
                break;
            }
            self.is_escape = byte == b'\\' && !self.is_escape;
            buffer[count] = byte;
            count += 1;
        }
        if !self.inserted.is_empty() {
            self.is_escape = false;
            self.file.consume(count + 1);
            return if count == 0 { self.inserted.read(buffer) } else { Ok(count) };
        }
        self.file.consume(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    #[test]
    fn they_become_those_of_json_wherever_a_buffer_ends() {
        let text = br#"{"a":"\x1F\\x1F\\\x00\n\"x\x7f","b\x":1}"#;
        let expected = br#"{"a":"\u001F\\x1F\\\u0000\n\"x\u007f","b\u00":1}"#;
        for size in 1..=text.len() {
            let mut read = Vec::new();
            JsonEscapes::new(BufReader::with_capacity(size, &text[..])).read_to_end(&mut read).unwrap();
            assert_eq!(String::from_utf8_lossy(&read), String::from_utf8_lossy(expected), "{size}");
        }
    }
}
