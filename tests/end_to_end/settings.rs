//! `infra/template.yaml` sets the variables that the functions read, and no others; and no secret is among them.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use annals_core::record::Channel;
use annals_core::settings::{Env, Setting, Unset};
use annals_io::clock::Clock;
use annals_local::config::LocalConfig;
use annals_runtime::channels;
use annals_runtime::process::{FunctionError, ProcessConfig};
use annals_test_support::template::{TEMPLATE, properties};
use secrecy::ExposeSecret;
use serde_json::{Value, json};

/// The settings in each secret, by the parameter that names it.
static SECRETS: LazyLock<Vec<(String, Vec<&str>)>> = LazyLock::new(|| {
    let others: [(&str, &[&str]); 3] = [
        ("HttpSecret", &["HTTP_API_KEYS"]),
        ("ModelSecret", &["MODEL_API_KEY", "MODEL_FALLBACK_API_KEY"]),
        // What `TOOLS` names, whatever that is.
        (TOOLS_SECRET, &[]),
    ];
    let others = others.map(|(parameter, held)| (parameter.to_owned(), held.to_vec()));
    let channels = channels::local().into_iter().map(|entry| entry.about);
    let channels = channels.map(|about| (format!("{}Secret", about.platform()), about.secrets().collect()));
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

/// The names that `read` asks for, if the settings are set on which others depend.
fn asked(read: impl FnOnce(Env<'_>)) -> BTreeSet<String> {
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
    read(Env::new(&lookup));
    names.into_inner()
}

/// The names that the program of `function` asks for.
fn read_by(function: &str) -> BTreeSet<String> {
    let program = TEMPLATE["Resources"][function]["Metadata"]["BuildProperties"]["Binary"].as_str().unwrap();
    let channels = channels::local().into_iter().map(|entry| (entry.about.channel.as_str(), entry.opens));
    let mut readers = READERS.into_iter().chain(channels);
    let (_, read) = readers.find(|(name, _)| *name == program).expect(program);
    asked(|env| {
        ProcessConfig::from_env(env).unwrap();
        read(env, &Clock::system()).unwrap();
    })
}

#[test]
fn each_function_is_given_what_it_reads() {
    let mut all = BTreeSet::new();
    for function in functions() {
        let mut read = read_by(function);
        all.extend(read.iter().cloned());
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
        for name in SECRETS.iter().flat_map(|(_, held)| held) {
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
    let mut unread = shared_variables();
    unread.extend(SECRETS.iter().flat_map(|(_, held)| held).map(|name| (*name).to_owned()));
    unread.retain(|name| !all.contains(name) && !OF_ALL.contains(&name.as_str()));
    assert!(unread.is_empty(), "no function reads {unread:?}");
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

/// Settings that are read before those of a program, or by commands alone.
const OF_THE_START: [&str; 7] = [
    "ANNALS_KEY",
    "ANNALS_PROFILE",
    "ANNALS_SECRETS",
    "ANNALS_URL",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "RUST_LOG",
];

#[test]
fn the_page_of_settings_has_each_setting_of_the_code_and_no_other() {
    let described: BTreeSet<String> = annals_local::settings::all().map(|of| of.name.to_owned()).collect();
    let mut read: BTreeSet<String> = functions().flat_map(read_by).collect();
    read.extend(asked(|env| {
        LocalConfig::from_env(env).unwrap();
    }));
    read.retain(|name| !name.starts_with("AWS_"));
    read.extend(OF_THE_START.map(str::to_owned));
    let missing: Vec<_> = read.difference(&described).collect();
    assert!(missing.is_empty(), "docs/settings.md has no row for {missing:?}: add them to a `SETTINGS`");
    let unread: Vec<_> = described.difference(&read).collect();
    assert!(
        unread.is_empty(),
        "docs/settings.md describes {unread:?}, which nothing reads. If they are read only with another setting, \
         set that one in `asked`; if only by a command, name them in `OF_THE_START`"
    );
}

#[test]
fn no_secret_is_in_the_template_or_in_an_environment() {
    let text = TEMPLATE.to_string();
    assert!(!text.contains("{{resolve:"), "it would be resolved into the environment");
    for name in SECRETS.iter().flat_map(|(_, held)| held) {
        // Neither a variable nor a parameter.
        assert!(!text.contains(&format!("\"{name}\":")), "{name}");
    }
    // A name, so that a role can say which secret it is; an ARN, or a secret itself, is refused.
    for (parameter, _) in &*SECRETS {
        assert_eq!(TEMPLATE["Parameters"][parameter]["AllowedPattern"], "[A-Za-z0-9/_+=.@-]{0,512}");
    }
}
