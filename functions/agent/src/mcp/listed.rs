//! A server's tool as a model is offered it.

use annals_shared::config::tools::{Approval, ServerConfig};
use annals_shared::model::Tool;
use aws_lc_rs::digest::{SHA256, digest};
use serde_json::{Map, Value, json};

/// The longest name that every provider takes.
const MAX_NAME_CHARS: usize = 64;
/// How much of a description is passed on, in characters.
const MAX_DESCRIPTION_CHARS: usize = 1_024;
/// The longest schema, in bytes of JSON; a tool with a longer one is left out.
const MAX_SCHEMA_BYTES: usize = 16 * 1024;

/// A tool of a server.
#[derive(Clone, Debug)]
pub(crate) struct External {
    /// As the model knows it.
    pub(crate) tool: Tool,
    /// Whether somebody must allow its calls.
    pub(crate) asks: bool,
    /// Which server, and its own name there.
    pub(super) server: usize,
    pub(super) name: String,
}

/// `tool` of the server at place `server`; `None` where it is not offered.
pub(super) fn external(server: usize, config: &ServerConfig, tool: &rmcp::model::Tool) -> Option<External> {
    let said = config.tool(&tool.name);
    if said.is_disabled {
        return None;
    }
    let schema = schema(&tool.input_schema);
    if schema.to_string().len() > MAX_SCHEMA_BYTES {
        tracing::warn!(server = config.name, tool = %tool.name, "an outside tool's schema is too long; it is not offered");
        return None;
    }
    let hints = tool.annotations.as_ref();
    let title = tool.title.clone().or_else(|| hints.and_then(|hints| hints.title.clone()));
    let description = tool.description.as_deref().or(title.as_deref()).unwrap_or(&tool.name);
    let description = description.chars().take(MAX_DESCRIPTION_CHARS).collect();
    let name = given_name(&config.name, &tool.name);
    Some(External {
        tool: Tool { name, description, input_schema: schema },
        asks: said.approval.unwrap_or(match config.approval {
            Approval::Always => true,
            Approval::Never => false,
            // What a server says nothing of, the protocol takes for destructive.
            Approval::Destructive => {
                let read_only = hints.and_then(|hints| hints.read_only_hint) == Some(true);
                let additive = hints.and_then(|hints| hints.destructive_hint) == Some(false);
                !read_only && !additive
            }
        }),
        server,
        name: tool.name.to_string(),
    })
}

/// `<server>_<tool>` of at most 64 letters, digits, `_` and `-`. Where that takes a change, the end of the name tells it
/// from others that become the like.
fn given_name(server: &str, tool: &str) -> String {
    let plain = format!("{server}_{tool}");
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if plain.len() <= MAX_NAME_CHARS && plain.chars().all(fits) {
        return plain;
    }
    let changed: String = plain.chars().map(|c| if fits(c) { c } else { '_' }).collect();
    marked(&changed, &plain)
}

/// The beginning of `name` with a mark of `of`, which tells it from the like.
fn marked(name: &str, of: &str) -> String {
    let mark = hex::encode(&digest(&SHA256, of.as_bytes()).as_ref()[..4]);
    let kept: String = name.chars().take(MAX_NAME_CHARS - mark.len() - 1).collect();
    format!("{kept}_{mark}")
}

impl External {
    /// Under another name, where the own is taken.
    pub(super) fn rename(&mut self) {
        self.tool.name = marked(&self.tool.name, &format!("{} {}", self.server, self.name));
    }
}

/// The schema as every provider takes it: an object's, with `properties`.
fn schema(given: &Map<String, Value>) -> Value {
    let mut schema = given.clone();
    schema.insert("type".into(), "object".into());
    schema.entry("properties").or_insert_with(|| json!({}));
    schema.remove("$schema");
    Value::Object(schema)
}

#[cfg(test)]
mod tests {
    use annals_shared::config::Env;
    use annals_shared::config::tools::ToolsConfig;

    use super::*;

    #[test]
    fn names_fit_every_provider_and_tell_tools_apart() {
        assert_eq!(given_name("shop", "refund"), "shop_refund");
        let odd =
            [given_name("shop", "re fund"), given_name("shop", "re.fund"), given_name("shop", "re_fund")];
        assert!(odd[0].starts_with("shop_re_fund_") && odd[0] != odd[1] && odd[2] == "shop_re_fund");
        let long = [given_name("shop", &"x".repeat(200)), given_name("shop", &"x".repeat(201))];
        assert!(long.iter().all(|name| name.len() == 64) && long[0] != long[1]);
        assert!(given_name("shop", "退款").is_ascii());
    }

    #[test]
    fn who_must_allow_what_is_said_in_tools_first_and_else_by_the_servers_hints() {
        let of = |approval: &str, said: Value, hints: Value| {
            let tools = json!({"mcpServers": {"s": {"url": "http://x/", "approval": approval, "tools": {"t": said}}}});
            let config = ToolsConfig::parse(&tools.to_string(), Env::new(&|_| None)).unwrap();
            let tool = json!({"name": "t", "inputSchema": {"$schema": "x"}, "annotations": hints});
            let tool: rmcp::model::Tool = serde_json::from_value(tool).unwrap();
            external(0, &config.servers[0], &tool).map(|external| external.asks)
        };
        let (nothing, read_only) = (json!({}), json!({"readOnlyHint": true}));
        assert_eq!(of("never", nothing.clone(), nothing.clone()), Some(false));
        assert_eq!(of("always", nothing.clone(), read_only.clone()), Some(true));
        assert_eq!(of("destructive", nothing.clone(), nothing.clone()), Some(true));
        assert_eq!(of("destructive", nothing.clone(), read_only.clone()), Some(false));
        assert_eq!(of("destructive", nothing.clone(), json!({"destructiveHint": false})), Some(false));
        assert_eq!(of("destructive", nothing.clone(), json!({"destructiveHint": true})), Some(true));
        assert_eq!(of("never", json!({"approval": true}), read_only), Some(true));
        assert_eq!(of("always", json!({"approval": false}), nothing.clone()), Some(false));
        assert_eq!(of("always", json!({"enabled": false}), nothing), None);
    }

    #[test]
    fn a_schema_is_an_objects() {
        let given = json!({"$schema": "https://json-schema.org/draft/2020-12/schema"});
        assert_eq!(schema(given.as_object().unwrap()), json!({"type": "object", "properties": {}}));
    }
}
