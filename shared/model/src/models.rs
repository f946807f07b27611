//! The models of a program, by their names: [`Models`].

use std::sync::Arc;

use annals_io::clock::Clock;
use annals_io::metrics::Metrics;
use aws_config::SdkConfig;

use crate::{Model, ModelError, ModelSettings};

/// The model of `MODEL`, and those of `MODELS`, which chats may have instead.
#[derive(Clone, Debug)]
pub struct Models {
    main: Model,
    others: Arc<[Model]>,
}

impl Models {
    /// Returns the models of `settings`, which count their requests in `metrics`. The other parameters and errors are those of
    /// [`Model::new`].
    pub fn new(
        settings: &ModelSettings,
        clock: &Clock,
        aws: Option<&SdkConfig>,
        metrics: &Metrics,
    ) -> Result<Self, ModelError> {
        let model = |settings| Ok(Model::new(settings, clock, aws)?.with_metrics(metrics.clone()));
        let others = settings.others.iter().map(model).collect::<Result<_, ModelError>>()?;
        Ok(Self { main: model(settings)?, others })
    }

    pub fn main(&self) -> &Model {
        &self.main
    }

    /// Returns the model with this [name](Model::name); `None` if the settings do not name it.
    pub fn named(&self, name: &str) -> Option<&Model> {
        let all = [Some(&self.main), self.main.fallback()].into_iter().flatten().chain(self.others.iter());
        all.into_iter().find(|model| model.name().as_deref() == Some(name))
    }
}

impl From<Model> for Models {
    /// Returns one model alone.
    fn from(main: Model) -> Self {
        Self { main, others: Arc::default() }
    }
}
