//! A reader of table and bucket that shares no code with the program: [`Stored`]. It knows the formats from the design pages
//! alone, and returns what is wrong as sentences.
//!
//! It is meant for stores at rest: no fault, no run and no unanswered message.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::{DeflateDecoder, GzDecoder};
use ring::digest::{SHA256, digest};
use serde_json::Value;

/// Attributes that the emptied head of a deleted chat may have.
const KEPT_OF_A_HEAD: [&str; 7] = ["pk", "sk", "fence", "forgottenAt", "dueShard", "dueAt", "dueSince"];
/// Attributes of a head that a run or a visit removes when it ends. `compacting` may stay: the next compaction continues that
/// summary, or gives it up.
const OF_A_RUN: [&str; 4] = ["leaseUntil", "turn", "archiving", "joins"];

/// A chat as its people know it.
pub struct Told {
    /// Its `ChatKey`.
    pub chat: String,
    /// Id and text of each acknowledged message since the chat was deleted last.
    pub said: Vec<(String, String)>,
    /// Texts of messages that were deleted with the chat.
    pub forgotten: Vec<String>,
}

/// The items of the table, and the objects of the bucket by key.
pub struct Stored {
    items: Vec<Value>,
    objects: BTreeMap<String, Vec<u8>>,
}

/// The records of one chat, by sort key.
#[derive(Default)]
struct Chat<'a> {
    head: Option<&'a Value>,
    pointers: Vec<&'a Value>,
    records: BTreeMap<String, Value>,
    is_indexed: bool,
}

impl Stored {
    /// Takes items in DynamoDB's JSON, and the objects of a bucket in the folder `bucket`.
    pub fn new(items: &[String], bucket: &Path) -> Self {
        let items = items.iter().map(|item| plain_item(&serde_json::from_str(item).unwrap())).collect();
        let mut objects = BTreeMap::new();
        collect(bucket, bucket, &mut objects);
        Self { items, objects }
    }

    /// Returns what is wrong with the stores, and with each chat of `told`.
    pub fn findings(&self, told: &[Told]) -> Vec<String> {
        let mut found = Vec::new();
        let mut chats: BTreeMap<&str, Chat<'_>> = BTreeMap::new();
        for item in &self.items {
            let (pk, sk) = (text(item, "pk"), text(item, "sk"));
            if pk.starts_with("memory:") || pk.starts_with("person:") || pk.starts_with('!') {
                continue;
            }
            let chat = chats.entry(pk).or_default();
            chat.is_indexed |= item.get("dueShard").is_some() && !sk.starts_with("!schedule");
            if sk == "!head" {
                chat.head = Some(item);
            } else if sk.starts_with("!segment#") {
                chat.pointers.push(item);
            } else if sk.starts_with(|first: char| first.is_ascii_digit()) {
                chat.records.insert(sk.to_owned(), item.clone());
            }
        }
        let (mut segments, mut bodies) = (BTreeSet::new(), BTreeSet::new());
        for (name, chat) in &mut chats {
            let in_table = chat.records.len();
            self.read_segments(name, chat, &mut segments, &mut found);
            let named = chat.records.values().filter_map(|record| record["body"].as_str());
            bodies.extend(named.map(str::to_owned));
            check_covering(name, chat, &mut found);
            check_summaries(name, chat, &mut found);
            check_calls(name, chat, &mut found);
            check_head(name, chat, &mut found);
            if in_table > 0 && !chat.is_indexed {
                found.push(format!("{name}: no index lists it"));
            }
        }
        for key in self.objects.keys() {
            let is_named = match key.split('/').next().unwrap_or_default() {
                "segments" => segments.contains(key.trim_end_matches(".index")),
                "bodies" => bodies.contains(key),
                _ => true,
            };
            if !is_named {
                found.push(format!("{key}: no item names it"));
            }
        }
        let missing = bodies.iter().filter(|key| !self.objects.contains_key(*key));
        found.extend(missing.map(|key| format!("{key}: missing")));
        self.check_memory(&mut found);
        for told in told {
            self.check_told(told, chats.get(told.chat.as_str()), &mut found);
        }
        found
    }

    /// Adds the records of the segments of `chat`, each of which is in one segment.
    fn read_segments(
        &self,
        name: &str,
        chat: &mut Chat<'_>,
        segments: &mut BTreeSet<String>,
        found: &mut Vec<String>,
    ) {
        let mut archived = BTreeSet::new();
        for pointer in &chat.pointers {
            let id = text(pointer, "id");
            let key = format!("segments/{}/{id}.jsonl.gz", session_id(name));
            segments.insert(key.clone());
            let Some(object) = self.objects.get(&key) else {
                found.push(format!("{key}: its pointer leads nowhere"));
                continue;
            };
            if !self.objects.contains_key(&format!("{key}.index")) {
                found.push(format!("{key}: it has no index"));
            }
            if hex::encode(digest(&SHA256, object)) != text(pointer, "sha256") {
                found.push(format!("{key}: its SHA-256 is not its pointer's"));
            }
            let mut lines = String::new();
            if GzDecoder::new(&object[..]).read_to_string(&mut lines).is_err() {
                found.push(format!("{key}: no complete gzip file"));
                continue;
            }
            let records: Vec<Value> =
                lines.lines().map(|line| serde_json::from_str(line).unwrap_or_default()).collect();
            let keys: Vec<&str> = records.iter().map(|record| text(record, "sk")).collect();
            if !keys.is_sorted_by(|a, b| a < b)
                || keys.first() != Some(&text(pointer, "from"))
                || keys.last() != Some(&text(pointer, "to"))
                || pointer["count"].as_u64() != Some(keys.len() as u64)
            {
                found.push(format!("{key}: its records are not those of its pointer"));
            }
            for record in &records {
                let sk = text(record, "sk");
                if text(record, "chatKey") != name || !archived.insert(sk.to_owned()) {
                    found.push(format!("{key}: {sk} belongs to another chat, or is in two segments"));
                }
                match chat.records.get(sk) {
                    Some(stored) if said_of(stored) != said_of(record) => {
                        found.push(format!("{name}: {sk} is another message in the archive"));
                    }
                    Some(_) => {}
                    None => {
                        chat.records.insert(sk.to_owned(), record.clone());
                    }
                }
            }
        }
    }

    /// Checks that the entries of each owner are numbered without gaps, and that no capture is incomplete.
    fn check_memory(&self, found: &mut Vec<String>) {
        let mut entries: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for item in self.items.iter().filter(|item| text(item, "pk").starts_with("memory:")) {
            let (owner, sk) = (text(item, "pk"), text(item, "sk"));
            if let Some(number) = sk.strip_prefix("entry#") {
                entries.entry(owner).or_default().push(number.parse().unwrap_or_default());
            } else if item.get("findings").is_some() {
                found.push(format!("{owner}: {sk} is incomplete"));
            }
        }
        for (owner, mut numbers) in entries {
            numbers.sort_unstable();
            if !(1..).zip(&numbers).all(|(expected, number)| expected == *number) {
                found.push(format!("{owner}: its entries are numbered {numbers:?}"));
            }
        }
    }

    /// Checks that each message that was acknowledged is there once with its text, and nothing that was deleted.
    fn check_told(&self, told: &Told, chat: Option<&Chat<'_>>, found: &mut Vec<String>) {
        let name = &told.chat;
        let nothing = Chat::default();
        let records = &chat.unwrap_or(&nothing).records;
        for (id, words) in &told.said {
            let is_first = |(sk, record): &(&String, &Value)| {
                text(record, "messageId") == id && text(record, "role") == "user" && *sk == base(sk)
            };
            let firsts: Vec<_> = records.iter().filter(is_first).collect();
            let [(_, first)] = firsts[..] else {
                found.push(format!("{name}: {} records of message {id}", firsts.len()));
                continue;
            };
            let message = match first["body"].as_str() {
                Some(key) => {
                    let object = self.objects.get(key).map(Vec::as_slice).unwrap_or_default();
                    serde_json::from_slice(object).unwrap_or_default()
                }
                None => said_of(first),
            };
            if !message["parts"].to_string().contains(words.as_str()) {
                found.push(format!("{name}: message {id} has another text"));
            }
        }
        let id = session_id(name);
        for words in &told.forgotten {
            if self.items.iter().any(|item| item.to_string().contains(words.as_str())) {
                found.push(format!("{name}: a deleted text is in the table"));
            }
        }
        if told.said.is_empty() && !told.forgotten.is_empty() {
            let left = self.objects.keys().filter(|key| key.contains(&id));
            found.extend(left.map(|key| format!("{key}: of a deleted chat")));
            for item in self.items.iter().filter(|item| text(item, "pk") == name) {
                let keys = item.as_object().unwrap().keys();
                if text(item, "sk") != "!head"
                    || !keys.clone().all(|key| KEPT_OF_A_HEAD.contains(&key.as_str()))
                {
                    found.push(format!("{name}: {} is left of a deleted chat", text(item, "sk")));
                }
            }
        }
    }
}

/// Checks that each message that asks is covered by one reply.
fn check_covering(name: &str, chat: &Chat<'_>, found: &mut Vec<String>) {
    let mut covered: BTreeMap<String, usize> = BTreeMap::new();
    for record in chat.records.values() {
        let covers = match &record["covers"] {
            Value::String(lines) => lines.lines().map(str::to_owned).collect(),
            Value::Array(keys) => keys.iter().filter_map(|key| Some(key.as_str()?.to_owned())).collect(),
            _ => Vec::new(),
        };
        for key in covers {
            *covered.entry(key).or_default() += 1;
        }
    }
    for (key, times) in &covered {
        if *times > 1 {
            found.push(format!("{name}: {times} replies cover {key}"));
        }
        if !chat.records.contains_key(key) {
            found.push(format!("{name}: a reply covers {key}, which does not exist"));
        }
    }
    let asking = chat.records.iter().filter(|(_, record)| record["asks"] == true);
    let asking: BTreeSet<&str> = asking.map(|(sk, _)| base(sk)).collect();
    let open = asking.iter().filter(|key| !covered.contains_key(**key));
    found.extend(open.map(|key| format!("{name}: no reply covers {key}")));
}

/// Checks that no message is counted by two summaries.
fn check_summaries(name: &str, chat: &Chat<'_>, found: &mut Vec<String>) {
    let mut counted = BTreeSet::new();
    for (sk, record) in chat.records.iter().filter(|(_, record)| text(record, "kind") == "summary") {
        let Some(packed) = record["counts"].as_str() else { continue };
        let mut lines = String::new();
        let packed = STANDARD.decode(packed).unwrap_or_default();
        if DeflateDecoder::new(&packed[..]).read_to_string(&mut lines).is_err() {
            found.push(format!("{name}: the keys of {sk} are unreadable"));
        }
        for key in lines.lines() {
            if !chat.records.contains_key(key) {
                found.push(format!("{name}: {sk} counts {key}, which does not exist"));
            }
            if !counted.insert(key.to_owned()) {
                found.push(format!("{name}: two summaries count {key}"));
            }
        }
    }
}

/// Checks that each call of a tool has its result, or waits for a person.
fn check_calls(name: &str, chat: &Chat<'_>, found: &mut Vec<String>) {
    for (sk, record) in &chat.records {
        let message = said_of(record);
        let mut parts = message["parts"].as_array().into_iter().flatten();
        if parts.any(|part| text(part, "state").starts_with("input-")) {
            found.push(format!("{name}: {sk} has a call without a result"));
        }
    }
}

/// Checks that nobody holds a chat, that nothing is left over, and that its head names records that exist.
fn check_head(name: &str, chat: &Chat<'_>, found: &mut Vec<String>) {
    let Some(head) = chat.head else {
        if !chat.records.is_empty() && chat.records.values().any(|record| record.get("covers").is_some()) {
            found.push(format!("{name}: it has a reply, and no head"));
        }
        return;
    };
    let left = OF_A_RUN.iter().filter(|name| head.get(**name).is_some());
    found.extend(left.map(|left| format!("{name}: its head has {left}")));
    if let Some(answered) = head["answeredTo"].as_str()
        && !chat.records.contains_key(answered)
    {
        found.push(format!("{name}: {answered} was answered, and does not exist"));
    }
}

/// Returns the part of a sort key that names the message.
fn base(sk: &str) -> &str {
    sk.match_indices('#').nth(1).map_or(sk, |(at, _)| &sk[..at])
}

fn text<'a>(item: &'a Value, name: &str) -> &'a str {
    item[name].as_str().unwrap_or_default()
}

/// Returns the message of an item or of a line, or the key of its body.
fn said_of(record: &Value) -> Value {
    match &record["message"] {
        Value::String(json) => serde_json::from_str(json).unwrap_or_default(),
        Value::Null => record["body"].clone(),
        message => message.clone(),
    }
}

fn session_id(chat: &str) -> String {
    let family = chat.split(':').next().unwrap_or_default();
    format!("{family}-{}", hex::encode(&digest(&SHA256, chat.as_bytes()).as_ref()[..12]))
}

fn plain_item(item: &Value) -> Value {
    item.as_object().unwrap().iter().map(|(name, value)| (name.clone(), plain(value))).collect()
}

fn plain(value: &Value) -> Value {
    let (kind, value) = value.as_object().and_then(|value| value.iter().next()).unwrap();
    match kind.as_str() {
        "N" => serde_json::from_str(value.as_str().unwrap_or_default()).unwrap_or_default(),
        "M" => plain_item(value),
        "L" => value.as_array().unwrap().iter().map(plain).collect(),
        _ => value.clone(),
    }
}

fn collect(root: &Path, folder: &Path, objects: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(root, &path, objects);
        } else {
            let key = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            objects.insert(key, std::fs::read(&path).unwrap());
        }
    }
}
