//! Settings of the model and of its fallback.

use annals_core::settings::{ConfigError, Env, Setting};
use secrecy::SecretString;

use crate::prices::MODEL_PRICES;
use crate::{ChoiceError, ModelChoice, ModelSettings};

/// Names of the variables of one model.
struct Names {
    model: &'static str,
    base_url: &'static str,
    api_key: &'static str,
}

const FIRST: Names = Names { model: "MODEL", base_url: "MODEL_BASE_URL", api_key: "MODEL_API_KEY" };
const FALLBACK: Names =
    Names { model: "MODEL_FALLBACK", base_url: "MODEL_FALLBACK_BASE_URL", api_key: "MODEL_FALLBACK_API_KEY" };

/// Settings of the model and of its fallback.
pub const SETTINGS: [Setting; 10] = [
    Setting::described(
        FIRST.model,
        "`echo` locally, required deployed",
        "`echo`, `openai:<model>`, `anthropic:<model>`, `bedrock:<model>` (a model id, or an inference profile's id or ARN)",
    ),
    Setting::described(
        FIRST.base_url,
        "the provider's",
        "an `http` or `https` URL. Ends in `/v1` for `openai:` and `anthropic:`; for `bedrock:` an endpoint of your own",
    ),
    Setting::optional(
        FIRST.api_key,
        "`openai:` and `anthropic:` need this or `MODEL_BASE_URL`. `bedrock:` signs as the process's role, or uses a \
         Bedrock API key",
    ),
    MODEL_PROMPT_CACHE,
    Setting::optional(FALLBACK.model, "as `MODEL`: asked if `MODEL` fails for good within a run"),
    Setting::described(FALLBACK.base_url, "the provider's", "as `MODEL_BASE_URL`"),
    Setting::optional(FALLBACK.api_key, "as `MODEL_API_KEY`"),
    Setting::optional(
        MODELS,
        "as `MODEL`, comma-separated: further models, which a [chat](guide.md#settings-of-a-chat) may have. Each of the \
         provider of `MODEL` or `MODEL_FALLBACK`, whose address and key it uses",
    ),
    MODEL_VISION,
    MODEL_PRICES,
];

const MODELS: &str = "MODELS";

const MODEL_PROMPT_CACHE: Setting = Setting::described(
    "MODEL_PROMPT_CACHE",
    "`true` for `anthropic:`, `false` for `bedrock:`",
    "`true`, `false`: marks where the provider may cache a request. Only some Bedrock models take it (Claude from 3.5 \
     v2 on, Nova). OpenAI caches unasked",
);
const MODEL_VISION: Setting = Setting::new(
    "MODEL_VISION",
    "auto",
    "`auto` shows images until the provider refuses them, and remembers that while the process lives; `true` always; \
     `false` never",
);

/// Reads `MODEL` and its fallback. `default` is used if `MODEL` is not set; with `None`, it is required.
pub fn model(env: Env<'_>, default: Option<&str>) -> Result<ModelSettings, ConfigError> {
    let mut settings = match one(env, &FIRST)? {
        Some(settings) => settings,
        None => match default {
            Some(default) => ModelSettings::new(parsed(FIRST.model, default)?),
            None => {
                return Err(ConfigError::new("MODEL", format!("is not set: give {}", ModelChoice::forms())));
            }
        },
    };
    settings.fallback = one(env, &FALLBACK)?.map(Box::new);
    match &settings.fallback {
        Some(_) if settings.choice == ModelChoice::Echo => {
            Err(ConfigError::new(FALLBACK.model, "is set, but MODEL is echo, which never fails"))
        }
        Some(fallback) if fallback.choice == ModelChoice::Echo => {
            Err(ConfigError::new(FALLBACK.model, "is echo, which only repeats messages"))
        }
        _ => {
            settings.others = others(env, &settings)?;
            Ok(settings)
        }
    }
}

/// Reads `MODELS`: each with the address and the key of `first`, or of its fallback, by its provider.
fn others(env: Env<'_>, first: &ModelSettings) -> Result<Vec<ModelSettings>, ConfigError> {
    let other = |choice: ModelChoice| {
        let ModelChoice::Hosted(model) = &choice else {
            return Err(ConfigError::new(MODELS, "has echo, which only repeats messages"));
        };
        let is_alike = |known: &&ModelSettings| matches!(&known.choice, ModelChoice::Hosted(known) if known.provider() == model.provider());
        let known = [Some(first), first.fallback.as_deref()].into_iter().flatten().find(is_alike);
        let known = known.ok_or_else(|| {
            let provider = model.provider();
            let problem =
                format!("has a model of {provider}, but neither MODEL nor MODEL_FALLBACK is of {provider}");
            ConfigError::new(MODELS, problem)
        })?;
        Ok(ModelSettings { choice, fallback: first.fallback.clone(), ..known.clone() })
    };
    choices(env, MODELS)?.into_iter().map(other).collect()
}

/// Reads the names of the models that a chat may have: those of `MODEL`, `MODEL_FALLBACK` and `MODELS`. For functions that ask
/// no model, and have no key of one.
pub fn model_names(env: Env<'_>) -> Result<Vec<String>, ConfigError> {
    let mut names = Vec::new();
    for variable in [FIRST.model, FALLBACK.model, MODELS] {
        let hosted = choices(env, variable)?.into_iter().filter(|choice| *choice != ModelChoice::Echo);
        for name in hosted.map(|choice| choice.to_string()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    Ok(names)
}

/// Reads the comma-separated models in `variable`.
fn choices(env: Env<'_>, variable: &'static str) -> Result<Vec<ModelChoice>, ConfigError> {
    let value = env.optional(variable).unwrap_or_default();
    let entries = value.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    entries.map(|entry| parsed(variable, entry)).collect()
}

fn one(env: Env<'_>, names: &Names) -> Result<Option<ModelSettings>, ConfigError> {
    let (base_url, api_key) = (env.optional(names.base_url), env.optional(names.api_key));
    // Checked also if no model is set.
    let sees = env.choice(&MODEL_VISION, &[("auto", None), ("true", Some(true)), ("false", Some(false))])?;
    env.flag_or(&MODEL_PROMPT_CACHE, false)?;
    let Some(value) = env.optional(names.model) else {
        // A variable without its model means that a model was intended. `MODEL` itself may have a default.
        let stray =
            [(names.base_url, &base_url), (names.api_key, &api_key)].into_iter().find(|of| of.1.is_some());
        return match stray {
            Some((name, _)) if names.model == FALLBACK.model => Err(ConfigError::new(
                names.model,
                format!("is not set, but {name} is: give {}", ModelChoice::forms()),
            )),
            _ => Ok(None),
        };
    };
    let mut settings = ModelSettings::new(parsed(names.model, &value)?);
    let is_url = |url: &String| {
        reqwest::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
    };
    if !base_url.as_ref().is_none_or(is_url) {
        return Err(ConfigError::new(names.base_url, "must be a URL that starts with http:// or https://"));
    }
    if api_key.as_ref().is_some_and(|key| !key.bytes().all(|b| b.is_ascii_graphic())) {
        return Err(ConfigError::new(names.api_key, "contains a space or another character that no key has"));
    }
    if let ModelChoice::Hosted(model) = &settings.choice
        && !model.may_use_aws()
        && api_key.is_none()
        && base_url.is_none()
    {
        let problem = format!("is not set: a hosted model needs a key, or a {} of your own", names.base_url);
        return Err(ConfigError::new(names.api_key, problem));
    }
    settings.marks_cache = env.flag_or(&MODEL_PROMPT_CACHE, settings.marks_cache)?;
    settings.sees = sees;
    settings.base_url = base_url;
    settings.api_key = api_key.map(SecretString::from);
    Ok(Some(settings))
}

fn parsed(variable: &str, value: &str) -> Result<ModelChoice, ConfigError> {
    value.parse().map_err(|error: ChoiceError| ConfigError::new(variable, error.to_string()))
}

#[cfg(test)]
mod tests {
    use annals_core::settings::from_table;

    use super::*;

    fn read(settings: &[(&str, &str)], default: Option<&str>) -> Result<ModelSettings, String> {
        from_table(settings, |env| model(env, default))
    }

    #[test]
    fn a_model_is_chosen_with_its_endpoint() {
        assert_eq!(read(&[], Some("echo")).unwrap().choice, ModelChoice::Echo);
        let own = [("MODEL", "openai:m:7b"), ("MODEL_BASE_URL", "http://127.0.0.1:1/v1")];
        let own = read(&own, None).unwrap();
        assert_eq!(own.choice, "openai:m:7b".parse().unwrap());
        assert!(!own.marks_cache && !own.needs_aws());
        let claude =
            read(&[("MODEL", "anthropic:claude-sonnet-4-5"), ("MODEL_API_KEY", "sk")], None).unwrap();
        assert!(claude.marks_cache && !claude.needs_aws());
        let id = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";
        let bedrock = read(&[("MODEL", &format!("bedrock:{id}"))], None).unwrap();
        assert_eq!(bedrock.choice, format!("bedrock:{id}").parse().unwrap());
        assert_eq!(bedrock.choice.to_string(), format!("bedrock:{id}"));
        assert!(!bedrock.marks_cache && bedrock.needs_aws());
        let marked =
            read(&[("MODEL", "bedrock:x"), ("MODEL_PROMPT_CACHE", "true"), ("MODEL_API_KEY", "k")], None);
        let marked = marked.unwrap();
        assert!(marked.marks_cache && !marked.needs_aws());
    }

    #[test]
    fn the_page_names_each_form_of_a_model() {
        let [model, ..] = SETTINGS;
        let forms = ModelChoice::forms();
        let missing =
            forms.split(", ").flat_map(|form| form.split(" or ")).find(|form| !model.values.contains(form));
        assert_eq!(missing, None);
    }

    #[test]
    fn a_fallback_has_settings_of_its_own() {
        let first = [("MODEL", "openai:m"), ("MODEL_API_KEY", "a")];
        let with = |more: &[(&'static str, &'static str)]| read(&[&first[..], more].concat(), None);
        assert!(with(&[]).unwrap().fallback.is_none());
        let both = with(&[("MODEL_FALLBACK", "bedrock:x")]).unwrap();
        assert!(both.needs_aws());
        assert_eq!(both.fallback.unwrap().choice, "bedrock:x".parse().unwrap());
        for (more, wanted) in [
            (vec![("MODEL_FALLBACK", "openai:x")], "MODEL_FALLBACK_API_KEY is not set"),
            (
                vec![("MODEL_FALLBACK_API_KEY", "k")],
                "MODEL_FALLBACK is not set, but MODEL_FALLBACK_API_KEY is",
            ),
            (vec![("MODEL_FALLBACK", "echo")], "MODEL_FALLBACK is echo"),
        ] {
            let error = with(&more).unwrap_err();
            assert!(error.starts_with(wanted), "{error}");
        }
        let error = read(&[("MODEL_FALLBACK", "bedrock:x")], Some("echo")).unwrap_err();
        assert!(error.starts_with("MODEL_FALLBACK is set, but MODEL is echo"), "{error}");
    }

    #[test]
    fn further_models_have_the_address_and_key_of_their_provider() {
        let first = [
            ("MODEL", "openai:m"),
            ("MODEL_BASE_URL", "http://127.0.0.1:1/v1"),
            ("MODEL_FALLBACK", "anthropic:x"),
            ("MODEL_FALLBACK_API_KEY", "k"),
        ];
        let with = |models| read(&[&first[..], &[("MODELS", models)]].concat(), None);
        let settings = with("openai:small, anthropic:large").unwrap();
        let of = |other: &ModelSettings| {
            (other.choice.to_string(), other.base_url.clone(), other.api_key.is_some())
        };
        assert_eq!(
            settings.others.iter().map(of).collect::<Vec<_>>(),
            [
                ("openai:small".into(), Some("http://127.0.0.1:1/v1".into()), false),
                ("anthropic:large".into(), None, true)
            ]
        );
        assert!(settings.others.iter().all(|other| other.fallback.is_some() && other.others.is_empty()));
        for (models, wanted) in [
            (
                "bedrock:x",
                "MODELS has a model of bedrock, but neither MODEL nor MODEL_FALLBACK is of bedrock",
            ),
            ("echo", "MODELS has echo"),
            ("openai:", "MODELS names a provider"),
            ("hunter2", "MODELS must be"),
        ] {
            let error = with(models).unwrap_err();
            assert!(error.starts_with(wanted) && !error.contains("hunter2"), "{error}");
        }
        let names = from_table(&[&first[..], &[("MODELS", "openai:small,openai:m")]].concat(), model_names);
        assert_eq!(names.unwrap(), ["openai:m", "anthropic:x", "openai:small"]);
        assert_eq!(from_table(&[], model_names).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn errors_name_the_variable_and_never_its_value() {
        for (settings, wanted) in [
            (vec![], "MODEL is not set"),
            (vec![("MODEL", "hunter2")], "MODEL must be"),
            (vec![("MODEL", "hunter2:x")], "MODEL must be"),
            (vec![("MODEL", "openai:")], "MODEL names a provider"),
            (vec![("MODEL", "openai:hunter2 x")], "MODEL contains a space"),
            (vec![("MODEL", "openai:hunter2")], "MODEL_API_KEY is not set"),
            (vec![("MODEL", "anthropic:hunter2")], "MODEL_API_KEY is not set"),
            (vec![("MODEL", "openai:m"), ("MODEL_API_KEY", "hunter2\n")], "MODEL_API_KEY contains"),
            (vec![("MODEL", "openai:m"), ("MODEL_BASE_URL", "hunter2/v1")], "MODEL_BASE_URL must"),
            (vec![("MODEL", "bedrock:m"), ("MODEL_PROMPT_CACHE", "hunter2")], "MODEL_PROMPT_CACHE must"),
            (vec![("MODEL", "bedrock:m"), ("MODEL_VISION", "hunter2")], "MODEL_VISION must"),
            (vec![("MODEL_PROMPT_CACHE", "hunter2")], "MODEL_PROMPT_CACHE must"),
            (vec![("MODEL_VISION", "hunter2")], "MODEL_VISION must"),
        ] {
            let error = read(&settings, None).unwrap_err();
            assert!(error.starts_with(wanted) && !error.contains("hunter2"), "{error}");
        }
    }
}
