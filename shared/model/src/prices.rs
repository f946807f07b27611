//! `MODEL_PRICES`: the cost of a reply by the model's own counts of tokens.

use std::collections::BTreeMap;

use annals_core::settings::{ConfigError, Env, Setting};

use super::answer::Usage;

pub const MODEL_PRICES: Setting = Setting::optional(
    "MODEL_PRICES",
    "comma-separated `model=input/output` or `model=input/output/cached`, per million tokens, in one currency: \
     `openai:gpt-4.1-mini=0.4/1.6/0.1`",
);

/// The price of one model, per million tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Price {
    input: f64,
    output: f64,
    cached: f64,
}

/// The prices of models, by their names as replies hold them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prices(BTreeMap<String, Price>);

impl Prices {
    /// Reads `MODEL_PRICES`.
    /// Fails with the variable, and the number of the entry that is invalid.
    pub fn from_env(env: Env<'_>) -> Result<Self, ConfigError> {
        let text = env.optional(MODEL_PRICES.name).unwrap_or_default();
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let read = entries.enumerate().map(|(at, entry)| {
            let invalid = || {
                let problem = format!(
                    "has an invalid entry {}: give model=input/output or model=input/output/cached",
                    at + 1
                );
                ConfigError::new(MODEL_PRICES.name, problem)
            };
            let (model, prices) = entry.rsplit_once('=').ok_or_else(invalid)?;
            let prices: Option<Vec<f64>> = prices.split('/').map(|price| price.trim().parse().ok()).collect();
            let price = match prices.as_deref() {
                Some([input, output]) => Price { input: *input, output: *output, cached: *input },
                Some([input, output, cached]) => Price { input: *input, output: *output, cached: *cached },
                _ => return Err(invalid()),
            };
            let is_valid = |price: f64| price.is_finite() && price >= 0.0;
            if model.trim().is_empty() || ![price.input, price.output, price.cached].into_iter().all(is_valid)
            {
                return Err(invalid());
            }
            Ok((model.trim().to_owned(), price))
        });
        Ok(Self(read.collect::<Result<_, _>>()?))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the cost of `usage` by the model of this name; `None` if its price is not known.
    pub fn cost(&self, model: &str, usage: &Usage) -> Option<f64> {
        let price = self.0.get(model)?;
        let cached = usage.cached_input_tokens.unwrap_or_default().min(usage.input_tokens);
        let read = usage.input_tokens - cached;
        let cost = f64::from(read) * price.input
            + f64::from(cached) * price.cached
            + f64::from(usage.output_tokens) * price.output;
        Some(cost / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use annals_core::settings::from_table as with;

    use super::*;

    fn usage(input_tokens: u32, output_tokens: u32, cached: u32) -> Usage {
        Usage {
            input_tokens,
            output_tokens,
            cached_input_tokens: Some(cached),
            estimated_input_tokens: input_tokens,
        }
    }

    #[test]
    fn tokens_cost_what_the_setting_says() {
        let prices =
            with(&[("MODEL_PRICES", "openai:m=2/8/0.5, bedrock:a=b=1/2")], Prices::from_env).unwrap();
        let check = |model: &str, usage: Usage, wanted: Option<f64>| {
            let cost = prices.cost(model, &usage);
            assert!(cost.zip(wanted).map_or(cost == wanted, |(a, b)| (a - b).abs() < 1e-12), "{cost:?}");
        };
        check("openai:m", usage(1_000_000, 0, 0), Some(2.0));
        check("openai:m", usage(1_000_000, 500_000, 400_000), Some(1.2 + 0.2 + 4.0));
        check("bedrock:a=b", usage(10, 10, 10), Some(30e-6));
        check("openai:n", usage(1, 1, 1), None);
        assert_eq!(with(&[], Prices::from_env), Ok(Prices::default()));
    }

    #[test]
    fn errors_name_the_variable_and_never_its_value() {
        for value in ["hunter2", "m=hunter2/1", "m=1", "m=1/2/3/4", "m=-1/2", "m=1/NaN", "=1/2", "m=1/2,x=1"]
        {
            let error = with(&[("MODEL_PRICES", value)], Prices::from_env).unwrap_err();
            assert!(
                error.starts_with("MODEL_PRICES has an invalid entry") && !error.contains("hunter2"),
                "{error}"
            );
        }
    }
}
