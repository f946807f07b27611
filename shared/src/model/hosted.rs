//! A model behind an API: the way there and back.
//!
//! Every provider is asked with streaming, so that a dead connection is told from a long thought, and an answer can be
//! shown while it comes. What breaks off is an error, and nothing of it is kept.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use aws_config::SdkConfig;
use futures::FutureExt;
use reqwest::header::CONTENT_TYPE;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use super::answer::{Answer, Coming, NO_SINK, Sink};
use super::conversation::Conversation;
use super::frames::{Frame, Frames};
use super::signing::Signer;
use super::{
    Model, ModelChoice, ModelError, ModelSettings, Prompt, Question, anthropic, bedrock, failure, openai,
};
use crate::clock::Clock;
use crate::metrics::{Metric, Metrics};
use crate::tls;

/// How long one request may take in all.
const TOTAL: Duration = Duration::from_mins(2);
/// How long it may take until anything of its answer comes. Models that reason say nothing for a minute and more.
const FIRST: Duration = Duration::from_secs(90);
/// How long an answer that has begun may pause. Providers send something at least every few seconds, if only a comment.
const BETWEEN: Duration = Duration::from_secs(40);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A peer that is gone is noticed by this, also where it is silent for good reason.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// A model behind an API. Clones share its connections.
#[derive(Clone, Debug)]
pub struct Hosted {
    /// Made when it is first used, since that reads the system's certificates.
    client: Arc<OnceLock<reqwest::Client>>,
    clock: Clock,
    choice: ModelChoice,
    /// Without a slash at its end.
    base_url: String,
    api_key: Option<SecretString>,
    signer: Option<Signer>,
    marks_cache: bool,
    /// `MODEL_VISION`
    sees: Option<bool>,
    known: Arc<Known>,
    metrics: Metrics,
    fallback: Option<Model>,
}

/// What a process has learned of its endpoint.
#[derive(Debug, Default)]
struct Known {
    /// It refuses `stream_options`.
    no_stream_options: AtomicBool,
    /// It does not stream this.
    no_streaming: AtomicBool,
    /// Its model takes no images.
    is_blind: AtomicBool,
}

impl Hosted {
    pub(super) fn new(
        settings: &ModelSettings,
        clock: &Clock,
        aws: Option<&SdkConfig>,
    ) -> Result<Self, ModelError> {
        let is_signed = matches!(settings.choice, ModelChoice::Bedrock(_)) && settings.api_key.is_none();
        let signer = match aws {
            Some(aws) if is_signed => Some(Signer::new(aws, clock.clone()).ok_or(ModelError::NoAws)?),
            None if is_signed => return Err(ModelError::NoAws),
            _ => None,
        };
        let base_url = match (&settings.base_url, &settings.choice) {
            (Some(base_url), _) => base_url.clone(),
            (None, ModelChoice::Anthropic(_)) => anthropic::BASE_URL.to_owned(),
            (None, ModelChoice::Bedrock(_)) => {
                let region = aws.and_then(|aws| aws.region()).ok_or(ModelError::NoAws)?;
                bedrock::base_url(region.as_ref())
            }
            (None, ModelChoice::Echo | ModelChoice::OpenAi(_)) => openai::BASE_URL.to_owned(),
        };
        let fallback = settings.fallback.as_deref().map(|fallback| Model::new(fallback, clock, aws));
        Ok(Self {
            client: Arc::default(),
            clock: clock.clone(),
            choice: settings.choice.clone(),
            base_url: base_url.trim_end_matches('/').to_owned(),
            api_key: settings.api_key.clone(),
            signer,
            marks_cache: settings.marks_cache,
            sees: settings.sees,
            known: Arc::default(),
            metrics: Metrics::default(),
            fallback: fallback.transpose()?,
        })
    }

    pub(super) fn count_in(&mut self, metrics: Metrics) {
        self.fallback = self.fallback.take().map(|fallback| fallback.with_metrics(metrics.clone()));
        self.metrics = metrics;
    }

    fn client(&self) -> Result<&reqwest::Client, ModelError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = tls::client()
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_keepalive(KEEPALIVE)
            // No API of a model redirects, and a redirect would carry the key elsewhere.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|_| ModelError::NoClient)?;
        Ok(self.client.get_or_init(|| client))
    }

    pub(super) fn fallback(&self) -> Option<&Model> {
        self.fallback.as_ref()
    }

    pub(super) fn name(&self) -> String {
        self.choice.to_string()
    }

    pub(super) fn sees(&self) -> bool {
        self.sees.unwrap_or_else(|| !self.known.is_blind.load(Ordering::Relaxed))
    }

    pub(super) async fn answer(&self, question: &Question<'_>, sink: Sink<'_>) -> Result<Answer, ModelError> {
        let conversation = Conversation::of_question(question, &self.name());
        if conversation.has_images() && !self.sees() {
            return Err(ModelError::ImagesRefused);
        }
        self.ask(&conversation, question.tokens(), sink).await
    }

    pub(super) async fn complete(&self, prompt: &Prompt) -> Result<Answer, ModelError> {
        let answer = self.ask(&Conversation::of_prompt(prompt), prompt.tokens(), NO_SINK).await?;
        if answer.text.is_empty() { Err(ModelError::Empty) } else { Ok(answer) }
    }

    #[tracing::instrument(name = "model", skip_all)]
    async fn ask(
        &self,
        conversation: &Conversation<'_>,
        estimate: u32,
        sink: Sink<'_>,
    ) -> Result<Answer, ModelError> {
        let request_made = Request { metrics: &self.metrics, started: Instant::now(), is_answered: false };
        let mut coming = Coming::new(sink, self.name());
        let asked = self.within(TOTAL, "timed out", self.stream(conversation, &mut coming)).await;
        match asked {
            // Where it is whole, only its figures are lost.
            Err(error) if !(matches!(error, ModelError::Unreachable(_)) && coming.finish.is_some()) => {
                coming.void();
                Err(error)
            }
            _ => {
                let answer = coming.into_answer(estimate)?;
                request_made.answered(&answer);
                Ok(answer)
            }
        }
    }

    async fn stream(
        &self,
        conversation: &Conversation<'_>,
        coming: &mut Coming<'_>,
    ) -> Result<(), ModelError> {
        let began = self.clock.now();
        let mut response = self.within(FIRST, "no answer in time", self.send(conversation)).await?;
        let media_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let mut frames = Frames::new(media_type.unwrap_or_default());
        let mut limit = FIRST.saturating_sub(self.clock.now().since(began));
        loop {
            let chunk = async { response.chunk().await.map_err(|error| failure::of_transport(&error)) };
            let Some(chunk) = self.within(limit, "the answer stopped", chunk).await? else { break };
            for frame in frames.push(&chunk)? {
                self.read(&frame, false, coming)?;
            }
            if coming.is_over {
                // A connection whose answer was read to its end can be used again.
                let _ = response.chunk().now_or_never();
                return Ok(());
            }
            limit = BETWEEN;
        }
        let (last, is_whole) = frames.end()?;
        for frame in last {
            self.read(&frame, is_whole, coming)?;
        }
        let is_there = is_whole || coming.is_over || coming.finish.is_some();
        if is_there { Ok(()) } else { Err(ModelError::Unreachable("the answer broke off")) }
    }

    /// What comes of the request, once its answer has begun, and is one.
    async fn send(&self, conversation: &Conversation<'_>) -> Result<reqwest::Response, ModelError> {
        loop {
            let response = self.request(conversation).await?.send().await;
            let response = response.map_err(|error| failure::of_transport(&error))?;
            if response.status().is_success() {
                return Ok(response);
            }
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            let body = response.text().await.unwrap_or_default();
            let learned = match self.choice {
                ModelChoice::Bedrock(_) if failure::refuses_streaming(status, &body) => {
                    &self.known.no_streaming
                }
                ModelChoice::OpenAi(_) if failure::refuses_stream_options(status, &body) => {
                    &self.known.no_stream_options
                }
                _ if conversation.has_images() => {
                    self.known.is_blind.fetch_or(failure::is_blind(status, &body), Ordering::Relaxed);
                    return Err(match failure::of_response(status, &headers, &body) {
                        _ if failure::is_about_images(status, &body) => ModelError::ImagesRefused,
                        error => error,
                    });
                }
                _ => return Err(failure::of_response(status, &headers, &body)),
            };
            if learned.swap(true, Ordering::Relaxed) {
                return Err(failure::of_response(status, &headers, &body));
            }
        }
    }

    async fn request(&self, conversation: &Conversation<'_>) -> Result<reqwest::RequestBuilder, ModelError> {
        let is = |known: &AtomicBool| known.load(Ordering::Relaxed);
        let key = self.api_key.as_ref().map(ExposeSecret::expose_secret);
        let (url, body) = match &self.choice {
            ModelChoice::Echo | ModelChoice::OpenAi(_) => {
                let counts = !is(&self.known.no_stream_options);
                (openai::url(&self.base_url), openai::body(self.model(), conversation, counts))
            }
            ModelChoice::Anthropic(_) => {
                let body = anthropic::body(self.model(), conversation, self.marks_cache);
                (anthropic::url(&self.base_url), body)
            }
            ModelChoice::Bedrock(_) => {
                let streams = !is(&self.known.no_streaming);
                let body = bedrock::body(self.model(), conversation, self.marks_cache);
                (bedrock::url(&self.base_url, self.model(), streams), body)
            }
        };
        let body = body.to_string();
        let mut request = self.client()?.post(&url).header(CONTENT_TYPE, "application/json");
        match (&self.choice, &self.signer) {
            (ModelChoice::Anthropic(_), _) => {
                request = request.header("anthropic-version", anthropic::VERSION);
                request = request.header("x-api-key", key.unwrap_or_default());
            }
            (_, Some(signer)) => {
                for (name, value) in signer.sign(&url, body.as_bytes()).await? {
                    request = request.header(name, value);
                }
            }
            // Servers of one's own often want no key, but a bearer header does no harm there.
            _ => request = request.bearer_auth(key.unwrap_or("none")),
        }
        Ok(request.body(body))
    }

    fn model(&self) -> &str {
        match &self.choice {
            ModelChoice::Echo => "",
            ModelChoice::OpenAi(name) | ModelChoice::Anthropic(name) | ModelChoice::Bedrock(name) => name,
        }
    }

    /// Adds `frame` to what comes: a piece, or where it `is_whole` an answer in one.
    fn read(&self, frame: &Frame, is_whole: bool, coming: &mut Coming<'_>) -> Result<(), ModelError> {
        let has_error = |body: &Value| body["error"].is_object() || body["error"].is_string();
        if frame.event == "error" || has_error(&frame.data) {
            return Err(failure::of_body(None, &frame.data));
        }
        match &self.choice {
            ModelChoice::Echo => {}
            ModelChoice::OpenAi(_) if is_whole => openai::whole(&frame.data, coming),
            ModelChoice::OpenAi(_) => openai::piece(frame, coming),
            ModelChoice::Anthropic(_) if is_whole => anthropic::whole(&frame.data, coming),
            ModelChoice::Anthropic(_) => anthropic::piece(&frame.data, coming),
            ModelChoice::Bedrock(_) if is_whole => bedrock::whole(&frame.data, coming),
            ModelChoice::Bedrock(_) => bedrock::piece(frame, coming),
        }
        if is_whole && coming.finish.is_none() && coming.is_nothing() {
            return Err(ModelError::Unreadable);
        }
        Ok(())
    }

    async fn within<T>(
        &self,
        limit: Duration,
        problem: &'static str,
        what: impl Future<Output = Result<T, ModelError>>,
    ) -> Result<T, ModelError> {
        tokio::select! {
            // What has come is taken, whatever the time.
            biased;
            done = what => done,
            () = self.clock.sleep(limit) => Err(ModelError::Unreachable(problem)),
        }
    }
}

/// A request on its way, which is counted however it ends; also where nobody waits for it any longer.
struct Request<'a> {
    metrics: &'a Metrics,
    /// Of the world's clock, since the model is of the world.
    started: Instant,
    is_answered: bool,
}

impl Request<'_> {
    fn answered(mut self, answer: &Answer) {
        self.is_answered = true;
        let latency = self.started.elapsed().as_millis();
        self.metrics.add(Metric::ModelLatency, u64::try_from(latency).unwrap_or(u64::MAX));
        if let Some(usage) = answer.usage {
            self.metrics.add(Metric::InputTokens, usage.input_tokens.into());
            self.metrics.add(Metric::OutputTokens, usage.output_tokens.into());
        }
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.metrics.add(Metric::ModelErrors, 1);
        }
    }
}
