//! `infra/template.yaml` sets the variables that the functions read, and no others; and no secret is among them.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::LazyLock;

use annals_core::record::Channel;
use annals_core::settings::{Env, Setting, Unset};
use annals_io::clock::Clock;
use annals_runtime::channels;
use annals_runtime::process::{FunctionError, ProcessConfig};
use annals_test_support::template::{TEMPLATE, properties};
use secrecy::ExposeSecret;
use serde_json::{Value, json};

/// The settings in each secret, by the parameter that names it.
static SECRETS: LazyLock<Vec<(String, &[&str])>> = LazyLock::new(|| {
    let others: [(&str, &[&str]); 3] = [
        ("HttpSecret", &["HTTP_API_KEYS"]),
        ("ModelSecret", &["MODEL_API_KEY", "MODEL_FALLBACK_API_KEY"]),
        // What `TOOLS` names, whatever that is.
        (TOOLS_SECRET, &[]),
    ];
    let others = others.map(|(parameter, held)| (parameter.to_owned(), held));
    let channels = channels::local().into_iter().map(|entry| entry.about);
    let channels = channels.map(|about| (format!("{}Secret", about.platform()), about.setup.held));
    others.into_iter().chain(channels).collect()
});
const TOOLS_SECRET: &str = "ToolsSecret";

/// Variables that each function reads before its settings, by `telemetry` and by the SDK; and those that nobody reads.
const OF_ALL: [&str; 5] = [
    "ANNALS_SECRETS",
    "ANNALS_SECRETS_REVISION",
    "AWS_ENDPOINT_URL",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "RUST_LOG",
];

/// Variables that the template omits: Lambda sets the first two, the third has the same default, the fourth may be in any
/// secret.
const LEFT_OUT: [&str; 4] =
    ["AWS_LAMBDA_FUNCTION_NAME", "AWS_LAMBDA_RUNTIME_API", "OTEL_SERVICE_NAME", "OTEL_EXPORTER_OTLP_HEADERS"];

type Reader = fn(Env<'_>, &Clock) -> Result<(), FunctionError>;

/// Reads the settings of each program but those of channels, as its `main` does.
const READERS: [(&str, Reader); 5] = [
    ("http", |env, clock| annals_http::function::Config::from_env(env, clock).map(drop)),
    ("streaming", |env, clock| annals_streaming::Config::from_env(env, clock).map(drop)),
    ("agent", |env, clock| annals_agent::function::QueueConfig::from_env(env, clock).map(drop)),
    ("compactor", |env, clock| annals_compactor::function::Config::from_env(env, clock).map(drop)),
    ("relay", |env, clock| annals_discord_relay::function::Config::from_env(env, clock).map(drop)),
];

/// Returns the development settings of all channels.
fn development() -> HashMap<&'static str, String> {
    let unset = channels::local().into_iter().map(|entry| (entry.from_env)(Env::new(&|_| None)).unwrap());
    let settings = unset.flat_map(|channel| channel.secrets(None));
    settings.map(|(name, value)| (name, value.expose_secret().to_owned())).collect()
}

/// A setting that a function reads with the rest and does not use: the agent fetches a group's messages.
const UNUSED: [(&str, &str); 1] = [("Lark", "LARK_GROUP_CONTEXT")];

pub(crate) fn functions() -> impl Iterator<Item = &'static str> {
    let resources = TEMPLATE["Resources"].as_object().unwrap().iter();
    resources.filter(|(_, of)| of["Type"] == "AWS::Serverless::Function").map(|(name, _)| name.as_str())
}

fn names_of(variables: &Value) -> BTreeSet<String> {
    variables["Environment"]["Variables"].as_object().unwrap().keys().cloned().collect()
}

fn shared_variables() -> BTreeSet<String> {
    names_of(&TEMPLATE["Globals"]["Function"])
}

/// The parameters that name the secrets of `function`.
fn secrets(function: &str) -> BTreeSet<&'static str> {
    let named = properties(function)["Environment"]["Variables"]["ANNALS_SECRETS"].to_string();
    let parameters = SECRETS.iter().map(|(parameter, _)| parameter.as_str());
    parameters.filter(|parameter| named.contains(&json!({"Ref": parameter}).to_string())).collect()
}

/// The names that the program of `function` asks for, where everything is set.
fn read_by(function: &str) -> BTreeSet<String> {
    let program = TEMPLATE["Resources"][function]["Metadata"]["BuildProperties"]["Binary"].as_str().unwrap();
    let names = RefCell::new(BTreeSet::new());
    let development = development();
    let lookup = |name: &str| {
        names.borrow_mut().insert(name.to_owned());
        let value = match name {
            "HTTP_API_KEYS" => "app:0123456789abcdef",
            "MODEL" => "echo",
            "ANNALS_TABLE" | "ANNALS_BUCKET" | "ANNALS_QUEUE_URL" => "x",
            _ => development.get(name)?,
        };
        Some(value.to_owned())
    };
    ProcessConfig::from_env(Env::new(&lookup)).unwrap();
    let channels = channels::local().into_iter().map(|entry| (entry.about.channel.as_str(), entry.opens));
    let mut readers = READERS.into_iter().chain(channels);
    let (_, read) = readers.find(|(name, _)| *name == program).expect(program);
    read(Env::new(&lookup), &Clock::system()).unwrap();
    names.into_inner()
}

#[test]
fn each_function_is_given_what_it_reads() {
    for function in functions() {
        let mut read = read_by(function);
        for (_, unused) in UNUSED.iter().filter(|(of, _)| *of == function) {
            assert!(read.remove(*unused), "{function} does not read {unused} at all");
        }
        let needed: BTreeSet<&str> = SECRETS
            .iter()
            .filter(|(parameter, held)| {
                held.iter().any(|name| read.contains(*name))
                    || (parameter == TOOLS_SECRET && read.contains("TOOLS"))
            })
            .map(|(parameter, _)| parameter.as_str())
            .collect();
        assert_eq!(secrets(function), needed, "{function}");
        for name in SECRETS.iter().flat_map(|(_, held)| *held) {
            read.remove(*name);
        }
        read.extend(OF_ALL.map(str::to_owned));
        let own = names_of(properties(function));
        let shared = shared_variables();
        let missing: Vec<_> =
            read.iter().filter(|name| !own.contains(*name) && !shared.contains(*name)).collect();
        assert!(missing.is_empty(), "{function} is not given {missing:?}");
        let unread: Vec<_> = own.difference(&read).collect();
        assert!(unread.is_empty(), "{function} does not read {unread:?}");
    }
}

/// A secret that holds the settings of two functions is readable by both.
#[test]
fn the_deployment_page_makes_a_secret_of_its_own_for_each_function() {
    const PAGE: &str = include_str!("../../docs/operations.md");
    let made: Vec<&str> = PAGE.split("create-secret --name ").skip(1).collect();
    let mut held: Vec<&str> = made
        .iter()
        .flat_map(|made| {
            let made = made.split("\n\n").next().unwrap();
            let held = SECRETS.iter().filter(|(_, names)| names.iter().any(|name| made.contains(name)));
            let held: Vec<&str> = held.map(|(parameter, _)| parameter.as_str()).collect();
            assert_eq!(held.len(), 1, "{made}");
            held
        })
        .collect();
    held.sort_unstable();
    let platforms = Channel::platforms().map(|channel| format!("{}Secret", channel.title()));
    let mut all: Vec<_> =
        ["HttpSecret", "ModelSecret"].map(str::to_owned).into_iter().chain(platforms).collect();
    all.sort_unstable();
    assert_eq!(held, all);
}

/// Each setting of the code is in the template or in a secret.
#[test]
fn each_setting_of_the_code_can_be_set() {
    let code = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut named =
        BTreeSet::from(["AWS_ENDPOINT_URL", "ANNALS_SECRETS_REVISION", "RUST_LOG"].map(str::to_owned));
    settings_in(&code.join("shared"), &mut named);
    settings_in(&code.join("functions"), &mut named);
    let mut set = shared_variables();
    set.extend(functions().flat_map(|function| names_of(properties(function))));
    set.extend(SECRETS.iter().flat_map(|(_, held)| *held).map(|name| (*name).to_owned()));
    set.extend(LEFT_OUT.map(str::to_owned));
    assert!(named.len() > 30, "{named:?}");
    let missing: Vec<_> = named.difference(&set).collect();
    assert!(missing.is_empty(), "the template sets no {missing:?}: {NO_SETTING}");
    let unread: Vec<_> = set.difference(&named).collect();
    assert!(unread.is_empty(), "the template sets {unread:?}, which no function reads");
}

/// A parameter of the template has the default of the setting that it sets.
#[test]
fn the_template_has_the_defaults_of_the_code() {
    let variables = |of: &'static Value| of["Environment"]["Variables"].as_object().unwrap();
    let own = functions().flat_map(|function| variables(properties(function)));
    let all: Vec<_> = own.chain(variables(&TEMPLATE["Globals"]["Function"])).collect();
    let mut compared = 0;
    for Setting { name, unset, .. } in annals_local::settings::all() {
        let Unset::Default(default) = unset else { continue };
        for parameter in
            all.iter().filter(|(set, _)| set == name).filter_map(|(_, value)| value["Ref"].as_str())
        {
            let of_parameter = &TEMPLATE["Parameters"][parameter]["Default"];
            let of_parameter = of_parameter.as_str().map_or_else(|| of_parameter.to_string(), str::to_owned);
            assert_eq!(of_parameter, *default, "{name}");
            compared += 1;
        }
    }
    assert!(compared > 15, "{compared}");
}

/// Texts in the code that look like settings and are not: a prefix, variables of the terminal and the desktop, a placeholder.
const OF_OTHERS: [&str; 7] =
    ["ANNALS_", "LC_ALL", "LC_MESSAGES", "NO_COLOR", "OTEL_SERVICE_NAME", "USER_ID", "XDG_CONFIG_HOME"];

#[test]
fn the_page_of_settings_has_each_setting_of_the_code_and_no_other() {
    let described: BTreeSet<String> = annals_local::settings::all().map(|of| of.name.to_owned()).collect();
    let code = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut named = BTreeSet::from(["RUST_LOG".to_owned()]);
    for folder in ["shared", "functions", "local/src"] {
        settings_in(&code.join(folder), &mut named);
    }
    named.retain(|name| !name.starts_with("AWS_") && !OF_OTHERS.contains(&name.as_str()));
    assert!(named.len() > 40, "{named:?}");
    let missing: Vec<_> = named.difference(&described).collect();
    assert!(missing.is_empty(), "docs/settings.md has no row for {missing:?}: {NO_SETTING}");
    let unread: Vec<_> = described.difference(&named).collect();
    assert!(unread.is_empty(), "docs/settings.md describes {unread:?}, which nothing reads");
}

/// The remedy for a word that is taken for a setting.
const NO_SETTING: &str =
    "if it is no setting, but a word of a platform's or provider's API, name it in `EVENTS`";

/// Words of APIs that are written like settings: Discord's events, refusals of Telegram.
const EVENTS: [&str; 10] = [
    "APPLICATION_AUTHORIZED",
    "APPLICATION_DEAUTHORIZED",
    "CHAT_RESTRICTED",
    "GUILD_CREATE",
    "GUILD_DELETE",
    "MESSAGE_CREATE",
    "MESSAGE_UPDATE",
    "MESSAGE_DELETE",
    "MESSAGE_DELETE_BULK",
    "TOPIC_CLOSED",
];

/// Settings whose names are one word.
const OF_ONE_WORD: [&str; 10] =
    ["MODEL", "MODELS", "TOOLS", "ADMINS", "LIMITS", "AGENTS", "CONSOLE", "MEMORY", "LINKS", "LANGUAGE"];

/// The texts in the code that look like the name of a setting.
fn settings_in(folder: &Path, named: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name().is_none_or(|name| name != "tests") {
                settings_in(&path, named);
            }
            continue;
        }
        if path.extension().is_none_or(|extension| extension != "rs") || path.ends_with("tests.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let (code, _) = text.split_once("#[cfg(test)]").unwrap_or((&text, ""));
        for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
            // A variable that is read at build time is no setting.
            let built = ["CARGO_PKG_VERSION", "CARGO_MANIFEST_DIR", "OUT_DIR"];
            let line =
                built.iter().fold(line.to_owned(), |line, name| line.replace(&format!("(\"{name}\")"), ""));
            let is_setting = |text: &&str| {
                let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
                OF_ONE_WORD.contains(text)
                    || (text.len() > 4 && text.contains('_') && text.chars().all(is_part))
            };
            let texts = line.split('"').skip(1).step_by(2).filter(is_setting);
            named.extend(texts.filter(|text| !EVENTS.contains(text)).map(str::to_owned));
        }
    }
}

#[test]
fn no_secret_is_in_the_template_or_in_an_environment() {
    let text = TEMPLATE.to_string();
    assert!(!text.contains("{{resolve:"), "it would be resolved into the environment");
    for name in SECRETS.iter().flat_map(|(_, held)| *held) {
        // Neither a variable nor a parameter.
        assert!(!text.contains(&format!("\"{name}\":")), "{name}");
    }
    // A name, so that a role can say which secret it is; an ARN, or a secret itself, is refused.
    for (parameter, _) in &*SECRETS {
        assert_eq!(TEMPLATE["Parameters"][parameter]["AllowedPattern"], "[A-Za-z0-9/_+=.@-]{0,512}");
    }
}
