//! `TOOLS`: the outside tools of the agent, and `ADMINS`: people who may approve calls everywhere.
//!
//! ```json
//! {"mcpServers": {
//!   "shop": {"url": "https://shop.example/mcp", "headers": {"Authorization": "Bearer ${SHOP_TOKEN}"},
//!            "approval": "never", "tools": {"refund": {"approval": true}, "debug": {"enabled": false}}, "timeoutSecs": 30}}}
//! ```
//!
//! The format is a subset of the one that other MCP clients use. `${NAME}` in a URL or a header is replaced by the
//! setting of that name, from the environment or a secret, so that `TOOLS` itself contains no secret. `TOOLS` may also
//! be `s3://<bucket>/<key>`, the place of such a document.

use std::time::Duration;

use annals_core::settings::{ConfigError, Env, Setting};
use secrecy::SecretString;
use serde_json::{Map, Value};

/// Settings of tools and approvals.
pub const SETTINGS: [Setting; 2] = [
    Setting::optional(
        VARIABLE,
        "a JSON document: [guide](guide.md#tools-and-approvals). Deployed also `s3://<bucket>/<key>`, read at start",
    ),
    Setting::optional(
        ADMINS,
        "Persons, comma-separated (`telegram-42`, `lark-ou_…`, an admin key's `userId`): may approve any call",
    ),
];

const VARIABLE: &str = "TOOLS";
const ADMINS: &str = "ADMINS";

/// Maximum length of a server's name. The names of its tools start with it, and have at most 64 characters.
const MAX_NAME_CHARS: usize = 32;
/// Maximum number of servers.
const MAX_SERVERS: usize = 16;
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_TIMEOUT_SECS: u64 = 120;

#[derive(Clone, Debug)]
pub enum ToolsSetting {
    /// The document itself.
    Given(ToolsConfig),
    /// Place of the document in S3.
    Stored { bucket: String, key: String },
}

#[derive(Clone, Debug, Default)]
pub struct ToolsConfig {
    /// The servers, in the order of the document.
    pub servers: Vec<ServerConfig>,
}

/// An MCP server over streamable HTTP.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Name of letters, digits, `_` and `-`, with which the names of its tools start.
    pub name: String,
    pub url: SecretString,
    /// Headers of each request: valid names in lower case, and values that may contain secrets.
    pub headers: Vec<(String, SecretString)>,
    /// Calls that need approval, for tools without an `approval` of their own.
    pub approval: Approval,
    /// Settings of single tools, by the server's name for them.
    pub tools: Vec<(String, ToolConfig)>,
    /// Time limit of a call.
    pub timeout: Duration,
}

/// Calls that need approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    Always,
    Never,
    /// Calls of tools that the server marks neither as read-only (`readOnlyHint`) nor as additive (`destructiveHint:
    /// false`).
    Destructive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallApproval {
    /// No approval: `false`.
    NotNeeded,
    /// By the askers, or an administrator of the bot or of the group: `true`.
    ByAskers,
    /// By an administrator of the bot, one of `ADMINS`: `"admins"`.
    ByAdmins,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolConfig {
    /// Approval that its calls need, if the document says so.
    pub approval: Option<CallApproval>,
    /// True if the tool is not offered to the model.
    pub is_disabled: bool,
}

impl ToolsSetting {
    /// Reads the setting; `None` if there are no outside tools.
    pub fn from_env(env: Env<'_>) -> Result<Option<Self>, ConfigError> {
        let Some(value) = env.optional(VARIABLE) else { return Ok(None) };
        let Some(place) = value.trim().strip_prefix("s3://") else {
            return ToolsConfig::parse(&value, env).map(Self::Given).map(Some);
        };
        match place.split_once('/') {
            Some((bucket, key)) if !bucket.is_empty() && !key.is_empty() => {
                Ok(Some(Self::Stored { bucket: bucket.to_owned(), key: key.to_owned() }))
            }
            _ => Err(wrong("", "must be s3://<bucket>/<key> if it names an object in S3")),
        }
    }
}

impl ToolsConfig {
    /// Parses the document `text`, with the settings that it names from `env`.
    pub fn parse(text: &str, env: Env<'_>) -> Result<Self, ConfigError> {
        let document: Value = serde_json::from_str(text).map_err(|error| {
            let place = format!("line {}, column {}", error.line(), error.column());
            wrong("", &format!("is neither s3://<bucket>/<key> nor JSON: {place}"))
        })?;
        let root = object(&document, "")?;
        known(root, "", &["mcpServers"])?;
        let servers = root.get("mcpServers").ok_or_else(|| wrong("", "has no mcpServers"))?;
        let servers = object(servers, "mcpServers")?;
        if servers.len() > MAX_SERVERS {
            return Err(wrong("mcpServers", &format!("has more than {MAX_SERVERS} servers")));
        }
        let servers = servers.iter().map(|(name, server)| ServerConfig::parse(name, server, env));
        Ok(Self { servers: servers.collect::<Result<_, _>>()? })
    }

    /// Returns the name of a tool that only administrators may approve, if there is one.
    pub fn for_admins_alone(&self) -> Option<String> {
        let tools =
            self.servers.iter().flat_map(|server| server.tools.iter().map(move |tool| (server, tool)));
        tools
            .filter(|(_, (_, tool))| tool.approval == Some(CallApproval::ByAdmins))
            .map(|(server, (name, _))| format!("{}_{name}", server.name))
            .next()
    }
}

impl ServerConfig {
    fn parse(name: &str, server: &Value, env: Env<'_>) -> Result<Self, ConfigError> {
        let is_name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if name.is_empty() || name.len() > MAX_NAME_CHARS || !name.chars().all(is_name_char) {
            let problem = format!(
                "has a server whose name is not 1 to {MAX_NAME_CHARS} of letters, digits, '_' and '-'"
            );
            return Err(wrong("mcpServers", &problem));
        }
        let path = format!("mcpServers.{name}");
        let fields = object(server, &path)?;
        if fields.contains_key("command") {
            return Err(wrong(&path, "has a command, but servers are called over HTTP: give its url"));
        }
        known(fields, &path, &["url", "headers", "approval", "tools", "timeoutSecs", "type"])?;
        match fields.get("type").map(Value::as_str) {
            None | Some(Some("http" | "streamable-http" | "streamableHttp")) => {}
            _ => return Err(wrong(&format!("{path}.type"), "must be http, which is streamable HTTP")),
        }
        let at = format!("{path}.url");
        let url = fields.get("url").and_then(Value::as_str).ok_or_else(|| wrong(&at, "is missing"))?;
        let url = filled(url, &at, env)?;
        let is_http = reqwest::Url::parse(&url)
            .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        if !is_http {
            return Err(wrong(&at, "must be an http or https URL"));
        }
        Ok(Self {
            name: name.to_owned(),
            url: url.into(),
            headers: headers(fields, &path, env)?,
            approval: match fields.get("approval").map(Value::as_str) {
                None | Some(Some("never")) => Approval::Never,
                Some(Some("always")) => Approval::Always,
                Some(Some("destructive")) => Approval::Destructive,
                Some(_) => {
                    return Err(wrong(&format!("{path}.approval"), "must be always, never or destructive"));
                }
            },
            tools: tools(fields, &path)?,
            timeout: match fields.get("timeoutSecs") {
                None => DEFAULT_TIMEOUT,
                Some(secs) => {
                    let secs = secs.as_u64().filter(|secs| (1..=MAX_TIMEOUT_SECS).contains(secs));
                    let problem = format!("must be a number of seconds from 1 to {MAX_TIMEOUT_SECS}");
                    Duration::from_secs(secs.ok_or_else(|| wrong(&format!("{path}.timeoutSecs"), &problem))?)
                }
            },
        })
    }

    /// Returns the settings of the tool that the server calls `name`.
    pub fn tool(&self, name: &str) -> ToolConfig {
        self.tools.iter().find(|(tool, _)| tool == name).map(|(_, config)| *config).unwrap_or_default()
    }
}

/// Reads `ADMINS`: the person ids that may approve calls in any chat, comma-separated: `telegram-42`, `lark-ou_…`, or
/// the bare `userId` of an admin key.
pub fn admins(env: Env<'_>) -> Result<Vec<String>, ConfigError> {
    let Some(value) = env.optional(ADMINS) else { return Ok(Vec::new()) };
    let admins: Vec<String> = value.split(',').map(|id| id.trim().to_owned()).collect();
    if admins.iter().any(String::is_empty) {
        return Err(ConfigError::new(
            ADMINS,
            "has an empty entry: give person ids such as telegram-42, with commas between",
        ));
    }
    Ok(admins)
}

fn headers(
    server: &Map<String, Value>,
    path: &str,
    env: Env<'_>,
) -> Result<Vec<(String, SecretString)>, ConfigError> {
    // Headers that the protocol itself sets.
    const RESERVED: [&str; 5] =
        ["accept", "content-type", "mcp-session-id", "mcp-protocol-version", "last-event-id"];
    let Some(headers) = server.get("headers") else { return Ok(Vec::new()) };
    let path = format!("{path}.headers");
    let headers = object(headers, &path)?.iter().map(|(name, value)| {
        let at = format!("{path}.{name}");
        let lower = name.to_ascii_lowercase();
        if RESERVED.contains(&lower.as_str()) {
            return Err(wrong(&at, "is a header that the protocol sets itself"));
        }
        reqwest::header::HeaderName::from_bytes(lower.as_bytes())
            .map_err(|_| wrong(&path, "has an invalid header name"))?;
        let value = value.as_str().ok_or_else(|| wrong(&at, "must be a string"))?;
        let value = filled(value, &at, env)?;
        reqwest::header::HeaderValue::from_str(&value)
            .map_err(|_| wrong(&at, "has a value that no header can have"))?;
        Ok((lower, SecretString::from(value)))
    });
    headers.collect()
}

fn tools(server: &Map<String, Value>, path: &str) -> Result<Vec<(String, ToolConfig)>, ConfigError> {
    let Some(tools) = server.get("tools") else { return Ok(Vec::new()) };
    let path = format!("{path}.tools");
    let tools = object(tools, &path)?.iter().map(|(name, tool)| {
        let at = format!("{path}.{name}");
        let fields = object(tool, &at)?;
        known(fields, &at, &["approval", "enabled"])?;
        let flag = |key: &str| match fields.get(key) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(wrong(&format!("{at}.{key}"), "must be true or false")),
        };
        let approval = match fields.get("approval") {
            None => None,
            Some(Value::Bool(false)) => Some(CallApproval::NotNeeded),
            Some(Value::Bool(true)) => Some(CallApproval::ByAskers),
            Some(Value::String(who)) if who == "admins" => Some(CallApproval::ByAdmins),
            Some(_) => {
                return Err(wrong(&format!("{at}.approval"), "must be true, false or \"admins\""));
            }
        };
        Ok((name.clone(), ToolConfig { approval, is_disabled: flag("enabled")? == Some(false) }))
    });
    tools.collect()
}

/// Replaces each `${NAME}` in `text` by the setting of that name.
fn filled(text: &str, path: &str, env: Env<'_>) -> Result<String, ConfigError> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("${") {
        let (name, behind) = behind.split_once('}').ok_or_else(|| wrong(path, "has a ${ without its }"))?;
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !is_name {
            return Err(wrong(path, "has a ${…} that names no setting"));
        }
        let value = env.optional(name);
        filled.push_str(before);
        filled.push_str(
            &value.ok_or_else(|| wrong(path, &format!("names the setting {name}, which is not set")))?,
        );
        rest = behind;
    }
    filled.push_str(rest);
    Ok(filled)
}

fn object<'a>(value: &'a Value, path: &str) -> Result<&'a Map<String, Value>, ConfigError> {
    value.as_object().ok_or_else(|| wrong(path, "must be a JSON object"))
}

fn known(fields: &Map<String, Value>, path: &str, names: &[&str]) -> Result<(), ConfigError> {
    match fields.keys().find(|name| !names.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => {
            Err(wrong(path, &format!("has {name:?}, which is unknown: known are {}", names.join(", "))))
        }
    }
}

fn wrong(path: &str, problem: &str) -> ConfigError {
    ConfigError::new(VARIABLE, if path.is_empty() { problem.to_owned() } else { format!("{path} {problem}") })
}

#[cfg(test)]
mod tests {
    use annals_core::settings::from_table;
    use secrecy::ExposeSecret;

    use super::*;

    fn parse(text: &str) -> Result<ToolsConfig, String> {
        from_table(&[("SHOP_TOKEN", "hunter2")], |env| ToolsConfig::parse(text, env))
    }

    #[test]
    fn a_document_is_read_with_the_settings_that_it_names() {
        let text = r#"{"mcpServers": {"shop": {"type": "http", "url": "https://shop.example/mcp",
            "headers": {"Authorization": "Bearer ${SHOP_TOKEN}"}, "approval": "destructive", "timeoutSecs": 5,
            "tools": {"refund": {"approval": true}, "debug": {"enabled": false}}},
            "plain": {"url": "http://127.0.0.1:1/mcp"}}}"#;
        let config = parse(text).unwrap();
        let [shop, plain] = &config.servers[..] else { panic!("two servers") };
        let (name, value) = &shop.headers[0];
        assert_eq!((name.as_str(), value.expose_secret()), ("authorization", "Bearer hunter2"));
        assert_eq!((shop.approval, shop.timeout.as_secs()), (Approval::Destructive, 5));
        assert_eq!(shop.tool("refund").approval, Some(CallApproval::ByAskers));
        assert!(shop.tool("debug").is_disabled && shop.tool("other") == ToolConfig::default());
        assert_eq!((plain.approval, plain.timeout), (Approval::Never, DEFAULT_TIMEOUT));
        assert!(parse(r#"{"mcpServers": {}}"#).unwrap().servers.is_empty());
        assert!(!format!("{config:?}").contains("hunter2"));
    }

    #[test]
    fn errors_name_the_problem_and_its_place() {
        let server = |fields: &str| format!(r#"{{"mcpServers": {{"shop": {{{fields}}}}}}}"#);
        let url = r#""url": "http://x/mcp""#;
        for (text, wanted) in [
            ("{".to_owned(), "TOOLS is neither s3://<bucket>/<key> nor JSON: line 1, column 1"),
            ("[]".into(), "TOOLS must be a JSON object"),
            ("{}".into(), "TOOLS has no mcpServers"),
            (r#"{"servers": {}}"#.into(), "TOOLS has \"servers\", which is unknown: known are mcpServers"),
            (r#"{"mcpServers": {"a b": {}}}"#.into(), "TOOLS mcpServers has a server whose name"),
            (server(""), "TOOLS mcpServers.shop.url is missing"),
            (server(r#""url": "ftp://x""#), "TOOLS mcpServers.shop.url must be an http or https URL"),
            (server(r#""command": "npx""#), "TOOLS mcpServers.shop has a command"),
            (server(&format!(r#"{url}, "type": "sse""#)), "TOOLS mcpServers.shop.type must be http"),
            (
                server(&format!(r#"{url}, "headers": {{"X": "${{NONE}}"}}"#)),
                "TOOLS mcpServers.shop.headers.X names the setting NONE, which is not set",
            ),
            (
                server(&format!(r#"{url}, "headers": {{"X": "${{SHOP_TOKEN"}}"#)),
                "TOOLS mcpServers.shop.headers.X has a ${ without its }",
            ),
            (
                server(&format!(r#"{url}, "headers": {{"Accept": "x"}}"#)),
                "TOOLS mcpServers.shop.headers.Accept is a header that the protocol sets itself",
            ),
            (
                server(&format!(r#"{url}, "approval": "maybe""#)),
                "TOOLS mcpServers.shop.approval must be always, never or destructive",
            ),
            (
                server(&format!(r#"{url}, "timeoutSecs": 0"#)),
                "TOOLS mcpServers.shop.timeoutSecs must be a number of seconds from 1 to 120",
            ),
            (
                server(&format!(r#"{url}, "tools": {{"refund": {{"approval": "yes"}}}}"#)),
                "TOOLS mcpServers.shop.tools.refund.approval must be true, false or \"admins\"",
            ),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.starts_with(wanted), "{text}: {error}");
            assert!(!error.contains("hunter2"));
        }
    }

    #[test]
    fn the_setting_is_a_document_or_a_place_in_s3() {
        let of = |value| from_table(&[("TOOLS", value)], ToolsSetting::from_env);
        assert!(of("").unwrap().is_none());
        let Ok(Some(ToolsSetting::Stored { bucket, key })) = of("s3://b/path/tools.json") else {
            panic!("a place")
        };
        assert_eq!((bucket.as_str(), key.as_str()), ("b", "path/tools.json"));
        assert!(of("s3://b").unwrap_err().starts_with("TOOLS must be s3://<bucket>/<key>"));
        assert_eq!(from_table(&[("ADMINS", "telegram-42, ada")], admins).unwrap(), ["telegram-42", "ada"]);
        assert!(from_table(&[("ADMINS", "a,,b")], admins).is_err());
    }
}
