//! The settings of everything that this program runs, and variables whose names look like misspelt ones.

use std::iter;

use annals_channel::finding::Words;
use annals_channel::words;
use annals_core::settings::Setting;
use annals_runtime::channels;

/// Returns the sections of `docs/settings.md`: their titles, and the settings of the crates that read them.
pub fn sections() -> [(&'static str, Vec<&'static [Setting]>); 6] {
    let channels = channels::local().into_iter().map(|entry| entry.about.settings);
    [
        (
            "Model and tools",
            vec![&annals_model::settings::SETTINGS[..], &annals_engine::settings::tools::SETTINGS],
        ),
        ("Answers", vec![&annals_engine::settings::SETTINGS]),
        ("Channels", iter::once(&annals_channel::settings::SETTINGS[..]).chain(channels).collect()),
        ("HTTP API", vec![&annals_http::settings::SETTINGS]),
        ("Storage", vec![&annals_store::settings::SETTINGS]),
        (
            "Program",
            vec![
                &crate::config::SETTINGS[..],
                &annals_runtime::secrets::SETTINGS,
                &annals_runtime::telemetry::SETTINGS,
            ],
        ),
    ]
}

/// Usual variables of shells and build tools whose names are close to that of a setting.
const OF_OTHERS: [&str; 2] = ["LINES", "MODE"];

/// Length from which a name may differ from a setting in two places, rather than in one.
const LONG: usize = 8;

/// Returns all settings, in the order of the page.
pub fn all() -> impl Iterator<Item = &'static Setting> {
    sections().into_iter().flat_map(|(_, lists)| lists).flatten()
}

/// Returns a warning for each of the variables `names` that looks like a misspelt setting.
pub fn misspelt(names: impl IntoIterator<Item = String>) -> Vec<Words> {
    let mut names: Vec<String> = names.into_iter().collect();
    names.sort_unstable();
    names
        .into_iter()
        .filter_map(|name| {
            let setting = closest(&name)?;
            Some(words!(
                "{name} is set, which is not a setting: did you mean {setting}?",
                "设置了 {name}，但没有这个设置项：您是指 {setting} 吗？"
            ))
        })
        .collect()
}

/// Returns the setting that `name` is probably meant to be.
fn closest(name: &str) -> Option<&'static str> {
    if OF_OTHERS.contains(&name) || all().any(|setting| setting.name == name) {
        return None;
    }
    // Hardly anybody misses the first letter, and other programs' variables often differ in nothing else.
    let near = all().filter(|setting| setting.name.get(..1) == name.get(..1));
    let near = near.map(|setting| (strsim::osa_distance(name, setting.name), setting.name));
    near.filter(|(distance, of)| *distance <= if of.len() < LONG { 1 } else { 2 })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(names: &str) -> Vec<String> {
        let warnings = misspelt(names.split_whitespace().map(str::to_owned));
        warnings.into_iter().map(|words| words.en).collect()
    }

    #[test]
    fn a_name_close_to_a_setting_is_named_with_it() {
        for (name, setting) in [
            ("MODLE", "MODEL"),
            ("MODELL", "MODEL"),
            ("ANNALS_PROT", "ANNALS_PORT"),
            ("ANALS_DATA_DIR", "ANNALS_DATA_DIR"),
            ("TELEGRAM_BOT_TOKNE", "TELEGRAM_BOT_TOKEN"),
            ("TELEGRAM_WEBHOOK_SECERT", "TELEGRAM_WEBHOOK_SECRET"),
            ("HTTP_API_KEY", "HTTP_API_KEYS"),
            ("TOOL", "TOOLS"),
        ] {
            let warning = format!("{name} is set, which is not a setting: did you mean {setting}?");
            assert_eq!(warned(name), [warning]);
        }
    }

    #[test]
    fn settings_and_usual_variables_are_not_warned_about() {
        for setting in all() {
            assert_eq!(warned(setting.name), [""; 0], "{}", setting.name);
        }
        let usual = "PATH MODE HOME USER LOGNAME SHELL TERM COLORTERM NO_COLOR LANG LANGUAGE LC_ALL LINES COLUMNS PWD OLDPWD \
             SHLVL HOSTNAME HOST PORT MAIL EDITOR PAGER TZ TMPDIR DISPLAY XDG_RUNTIME_DIR DBUS_SESSION_BUS_ADDRESS \
             SSH_AUTH_SOCK SSH_CONNECTION SSH_TTY HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy _ \
             CARGO_HOME CARGO_PKG_NAME CARGO_MANIFEST_DIR RUSTUP_HOME RUST_BACKTRACE RUST_LOG_STYLE RUSTFLAGS \
             NODE NODE_ENV NODE_PATH NVM_DIR NPM_TOKEN VIRTUAL_ENV PYTHONPATH PYENV_ROOT JAVA_HOME GOPATH GOROOT \
             AWS_REGION AWS_PROFILE AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_ENDPOINT_URL \
             OTEL_SERVICE_NAME OTEL_EXPORTER_OTLP_TRACES_ENDPOINT OTEL_EXPORTER_OTLP_PROTOCOL \
             OPENAI_API_KEY OPENAI_BASE_URL ANTHROPIC_API_KEY DISCORD_TOKEN TELEGRAM_TOKEN DOCKER_HOST CI GITHUB_TOKEN \
             GITHUB_ACTIONS DATABASE_URL REDIS_URL SECRET_KEY DEBUG LOG_LEVEL CONTAINER_NAME MEMORY_LIMIT LINUX LINGUAS";
        assert_eq!(warned(usual), [""; 0]);
    }
}
