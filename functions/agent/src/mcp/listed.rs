//! An external tool as a model is offered it: [`External`].

use annals_core::markup::clean_name;
use annals_engine::settings::tools::{Approval, CallApproval, ServerConfig};
use annals_model::Tool;
use ring::digest::{SHA256, digest};
use serde_json::Value;

use super::schema::plain_object;

/// Maximum length of a name that every provider accepts.
const MAX_NAME_CHARS: usize = 64;
/// Maximum length of a description, in characters; the rest is cut.
const MAX_DESCRIPTION_CHARS: usize = 1_024;
/// Maximum length of a schema, in bytes of JSON; a tool with a longer one is not offered.
const MAX_SCHEMA_BYTES: usize = 16 * 1024;

/// A tool of a server.
#[derive(Clone, Debug)]
pub(crate) struct External {
    /// The tool as the model knows it.
    pub(crate) tool: Tool,
    pub(crate) approval: CallApproval,
    /// True if the approval depends on the server's hints alone: `approval: destructive`, and no setting for the tool in `TOOLS`.
    pub(super) is_hinted: bool,
    /// `<server>/<tool>`, for people.
    pub(crate) label: String,
    /// Index of the server, and the tool's name there.
    pub(super) server: usize,
    pub(super) name: String,
}

/// Returns `tool` of the server at index `server`; `None` if it is not offered.
pub(super) fn external(server: usize, config: &ServerConfig, tool: &rmcp::model::Tool) -> Option<External> {
    let said = config.tool(&tool.name);
    if said.is_disabled {
        return None;
    }
    let fits = |schema: &Value| schema.to_string().len() <= MAX_SCHEMA_BYTES;
    let given = Value::Object((*tool.input_schema).clone());
    let schema = given.as_object().filter(|_| fits(&given)).map(plain_object).filter(fits);
    let Some(schema) = schema else {
        tracing::warn!(server = config.name, tool = %tool.name, "an external tool is not offered: its schema is too long");
        return None;
    };
    let hints = tool.annotations.as_ref();
    // An empty one is refused by Bedrock, with the whole request.
    let titles = [tool.title.as_deref(), hints.and_then(|hints| hints.title.as_deref())];
    let said_of_it = [tool.description.as_deref()].into_iter().chain(titles).flatten().map(str::trim);
    let description = said_of_it.chain([&*tool.name]).find(|text| !text.is_empty()).unwrap_or_default();
    let description = description.chars().take(MAX_DESCRIPTION_CHARS).collect();
    let name = given_name(&config.name, &tool.name);
    let is_hinted = said.approval.is_none() && config.approval == Approval::Destructive;
    Some(External {
        tool: Tool { name, description, input_schema: schema },
        approval: said.approval.unwrap_or(match config.approval {
            Approval::Always => CallApproval::ByAskers,
            Approval::Never => CallApproval::NotNeeded,
            // Without hints, a tool counts as destructive by the protocol.
            Approval::Destructive => {
                let read_only = hints.and_then(|hints| hints.read_only_hint) == Some(true);
                let additive = hints.and_then(|hints| hints.destructive_hint) == Some(false);
                if read_only || additive { CallApproval::NotNeeded } else { CallApproval::ByAskers }
            }
        }),
        is_hinted,
        label: format!("{}/{}", config.name, clean_name(&tool.name)),
        server,
        name: tool.name.to_string(),
    })
}

/// Returns `<server>_<tool>` as at most 64 letters, digits, `_` and `-`. If that changes the name, a hash at its end keeps it
/// unique.
fn given_name(server: &str, tool: &str) -> String {
    let plain = format!("{server}_{tool}");
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if plain.len() <= MAX_NAME_CHARS && plain.chars().all(fits) {
        return plain;
    }
    let changed: String = plain.chars().map(|c| if fits(c) { c } else { '_' }).collect();
    marked(&changed, &plain)
}

/// Returns the beginning of `name` with a hash of `of`.
fn marked(name: &str, of: &str) -> String {
    let mark = hex::encode(&digest(&SHA256, of.as_bytes()).as_ref()[..4]);
    let kept: String = name.chars().take(MAX_NAME_CHARS - mark.len() - 1).collect();
    format!("{kept}_{mark}")
}

impl External {
    /// Gives the tool another name, if its own is taken.
    pub(super) fn rename(&mut self) {
        self.tool.name = marked(&self.tool.name, &format!("{} {}", self.server, self.name));
    }
}

#[cfg(test)]
mod tests {
    use annals_core::settings::Env;
    use annals_engine::settings::tools::ToolsConfig;
    use annals_test_support::json::with;
    use serde_json::json;

    use super::*;

    #[test]
    fn names_fit_every_provider_and_are_unique() {
        assert_eq!(given_name("shop", "refund"), "shop_refund");
        let odd =
            [given_name("shop", "re fund"), given_name("shop", "re.fund"), given_name("shop", "re_fund")];
        assert!(odd[0].starts_with("shop_re_fund_") && odd[0] != odd[1] && odd[2] == "shop_re_fund");
        let long = [given_name("shop", &"x".repeat(200)), given_name("shop", &"x".repeat(201))];
        assert!(long.iter().all(|name| name.len() == 64) && long[0] != long[1]);
        assert!(given_name("shop", "退款").is_ascii());
    }

    #[test]
    fn approval_depends_on_tools_first_and_then_on_the_servers_hints() {
        let of = |approval: &str, said: &Value, hints: &Value| {
            let tools = json!({"mcpServers": {"s": {"url": "http://x/", "approval": approval, "tools": {"t": said}}}});
            let config = ToolsConfig::parse(&tools.to_string(), Env::new(&|_| None)).unwrap();
            let tool = json!({"name": "t", "inputSchema": {"$schema": "x"}, "annotations": hints});
            let tool: rmcp::model::Tool = serde_json::from_value(tool).unwrap();
            external(0, &config.servers[0], &tool).map(|external| external.approval)
        };
        let (read_only, additive) = (json!({"readOnlyHint": true}), json!({"destructiveHint": false}));
        for (approval, said, hints, wanted) in [
            ("never", json!({}), json!({}), Some(CallApproval::NotNeeded)),
            ("always", json!({}), read_only.clone(), Some(CallApproval::ByAskers)),
            ("destructive", json!({}), json!({}), Some(CallApproval::ByAskers)),
            ("destructive", json!({}), read_only.clone(), Some(CallApproval::NotNeeded)),
            ("destructive", json!({}), additive, Some(CallApproval::NotNeeded)),
            ("destructive", json!({}), json!({"destructiveHint": true}), Some(CallApproval::ByAskers)),
            ("never", json!({"approval": true}), read_only, Some(CallApproval::ByAskers)),
            ("always", json!({"approval": false}), json!({}), Some(CallApproval::NotNeeded)),
            ("never", json!({"approval": "admins"}), json!({}), Some(CallApproval::ByAdmins)),
            ("always", json!({"enabled": false}), json!({}), None),
        ] {
            assert_eq!(of(approval, &said, &hints), wanted, "{approval} {said} {hints}");
        }
    }

    #[test]
    fn a_blank_description_is_replaced_by_a_title_or_the_name() {
        let config = r#"{"mcpServers": {"s": {"url": "http://x/"}}}"#;
        let config = ToolsConfig::parse(config, Env::new(&|_| None)).unwrap();
        let check = |fields: Value, wanted: &str| {
            let tool = with(json!({"name": "t", "inputSchema": {}}), fields.clone());
            let tool: rmcp::model::Tool = serde_json::from_value(tool).unwrap();
            let external = external(0, &config.servers[0], &tool).unwrap();
            assert_eq!(external.tool.description, wanted, "{fields}");
        };
        let (blank, hint) = (" \n", json!({"title": "As hinted"}));
        check(json!({"description": " Does it. ", "title": "T"}), "Does it.");
        check(json!({"description": "", "title": "T", "annotations": hint}), "T");
        check(json!({"description": blank, "title": blank, "annotations": hint}), "As hinted");
        check(json!({"description": blank, "title": ""}), "t");
        check(json!({}), "t");
    }
}
