//! `infra/template.yaml` sets the variables that the functions read, and no others.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use annals_shared::config::{
    AgentConfig, ConfigError, Env, LarkConfig, MemoryConfig, StoreConfig, TelegramConfig, ViewConfig,
    agent_id, api_keys, channel_settings,
};

const TEMPLATE: &str = include_str!("../../infra/template.yaml");

/// The names of the environment variables by the function that they are set for; those of all under `Globals`.
fn set_variables() -> BTreeMap<String, BTreeSet<String>> {
    let mut set: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let (mut section, mut variables_at) = (String::new(), None);
    for line in TEMPLATE.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let indent = line.len() - line.trim_start().len();
        let Some((name, _)) = line.trim().split_once(':') else { continue };
        if indent == 0 || indent == 2 {
            section = if line.starts_with("Globals") || section == "Globals" && indent == 2 {
                "Globals".to_owned()
            } else {
                name.to_owned()
            };
        }
        match variables_at {
            _ if name == "Variables" => variables_at = Some(indent),
            Some(at) if indent == at + 2 => {
                set.entry(section.clone()).or_default().insert(name.to_owned());
            }
            Some(at) if indent <= at => variables_at = None,
            _ => {}
        }
    }
    set
}

/// The names that `read` asks for, where everything is set.
fn read_variables(read: impl Fn(Env<'_>) -> Result<(), ConfigError>, of_others: &[&str]) -> BTreeSet<String> {
    let names = RefCell::new(BTreeSet::new());
    let lookup = |name: &str| {
        names.borrow_mut().insert(name.to_owned());
        let value = match name {
            "HTTP_API_KEYS" => "app:s3cret",
            "MODEL" => "echo",
            "TELEGRAM_BOT_TOKEN" => "1:x",
            "ANNALS_TABLE"
            | "ANNALS_BUCKET"
            | "ANNALS_QUEUE_URL"
            | "TELEGRAM_WEBHOOK_SECRET"
            | "LARK_APP_ID"
            | "LARK_APP_SECRET"
            | "LARK_VERIFICATION_TOKEN" => "x",
            _ => return None,
        };
        Some(value.to_owned())
    };
    read(Env::new(&lookup)).unwrap();
    let mut names = names.into_inner();
    for name in of_others {
        assert!(names.remove(*name), "{name} is not read at all");
    }
    names
}

/// Each function's settings, as its `main.rs` reads them.
#[test]
fn each_function_is_given_what_it_reads() {
    let door = |env: Env<'_>| -> Result<(), ConfigError> {
        StoreConfig::from_env(env)?;
        env.required("ANNALS_QUEUE_URL")?;
        channel_settings(env).map(drop)
    };
    let read = [
        (
            "Telegram",
            read_variables(|env| door(env).and_then(|()| TelegramConfig::from_env(env).map(drop)), &[]),
        ),
        (
            "Lark",
            // What was said in a group is fetched by the agent.
            read_variables(
                |env| door(env).and_then(|()| LarkConfig::from_env(env).map(drop)),
                &["LARK_GROUP_CONTEXT"],
            ),
        ),
        (
            "Http",
            read_variables(
                |env| {
                    StoreConfig::from_env(env)?;
                    env.required("ANNALS_QUEUE_URL")?;
                    api_keys(env)?;
                    agent_id(env)?;
                    env.optional("SYSTEM_PROMPT");
                    MemoryConfig::from_env(env)?;
                    ViewConfig::from_env(env).map(drop)
                },
                &[],
            ),
        ),
        (
            "Agent",
            // What is encrypted comes to the webhook.
            read_variables(
                |env| {
                    door(env)?;
                    AgentConfig::from_env(env, None)?;
                    TelegramConfig::from_env(env)?;
                    LarkConfig::from_env(env).map(drop)
                },
                &["LARK_ENCRYPT_KEY"],
            ),
        ),
        (
            "Compactor",
            read_variables(
                |env| {
                    StoreConfig::from_env(env)?;
                    AgentConfig::from_env(env, None).map(drop)
                },
                &[],
            ),
        ),
    ];
    let set = set_variables();
    assert_eq!(set.len(), read.len() + 1, "a function has no row here: {:?}", set.keys());
    let globals = &set["Globals"];
    for (function, read) in read {
        let own = &set[function];
        let missing: Vec<_> =
            read.iter().filter(|name| !own.contains(*name) && !globals.contains(*name)).collect();
        assert!(missing.is_empty(), "{function} is not given {missing:?}");
        let unread: Vec<_> = own.difference(&read).collect();
        assert!(unread.is_empty(), "{function} does not read {unread:?}");
    }
}

/// API Gateway passes on what the template names, and answers anything else itself.
#[test]
fn each_route_of_the_http_api_is_deployed() {
    const ROUTER: &str = include_str!("../../functions/http/src/lib.rs");
    // Names of parameters are each side's own.
    let route = |method: &str, path: &str| {
        let parts = path.split('/').map(|part| if part.starts_with('{') { "{}" } else { part });
        format!("{} {}", method.to_uppercase(), parts.collect::<Vec<_>>().join("/"))
    };
    let routed: BTreeSet<String> = ROUTER
        .lines()
        .filter_map(|line| line.trim().strip_prefix(".route(\"")?.split_once('"'))
        .flat_map(|(path, methods)| {
            let of_it = ["get", "post", "put", "delete"].into_iter();
            of_it.filter(|method| methods.contains(&format!("{method}("))).map(|method| route(method, path))
        })
        .collect();
    let (_, http) = TEMPLATE.split_once("\n  Http:\n").unwrap();
    let (http, _) = http.split_once("\n  Agent:\n").unwrap();
    let deployed: BTreeSet<String> = http
        .lines()
        .filter_map(|line| line.split_once("Method: ")?.1.split_once(", Path: "))
        .map(|(method, path)| route(method, path.trim_end_matches(" }").trim_matches('"')))
        .collect();
    assert!(routed.len() > 10, "{routed:?}");
    assert_eq!(routed, deployed);
}
